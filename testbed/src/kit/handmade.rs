//! An etcd cluster made by hand, without any operator: what tests talk to, and the floor that benchmarks compare with.

use std::fmt::Write;

/// An etcd cluster with static bootstrap: its pods, a headless Service for its members and a Service for clients.
///
/// Data is in an emptyDir, and a pod is not made again by anybody.
#[derive(Debug, Clone, Copy)]
pub struct HandMade<'a> {
    /// Its name; members are `NAME-0`, `NAME-1`, …, the Service for clients is `NAME-client`.
    pub name: &'a str,
    /// The namespace that it goes to.
    pub namespace: &'a str,
    /// Such as `3.6.14`.
    pub version: &'a str,
    /// How many members.
    pub size: usize,
}

impl HandMade<'_> {
    /// The names of its members, which are those of its pods.
    #[must_use]
    pub fn members(&self) -> Vec<String> {
        (0..self.size).map(|at| format!("{}-{at}", self.name)).collect()
    }

    /// Selects its pods.
    #[must_use]
    pub fn labels(&self) -> String {
        format!("etcd={}", self.name)
    }

    /// Where one member serves clients.
    #[must_use]
    pub fn member_url(&self, member: &str) -> String {
        format!("http://{}:2379", self.host(member))
    }

    /// Where all of them serve clients.
    #[must_use]
    pub fn client_url(&self) -> String {
        format!("http://{}-client:2379", self.name)
    }

    /// All of it.
    #[must_use]
    pub fn manifest(&self) -> String {
        self.members().iter().fold(self.services(), |manifest, member| manifest + "---\n" + &self.pod(member))
    }

    /// As the classic operator has it, so that figures can be compared.
    fn host(&self, member: &str) -> String {
        format!("{member}.{}.{}.svc", self.name, self.namespace)
    }

    fn services(&self) -> String {
        let name = self.name;
        format!(
            "
apiVersion: v1
kind: Service
metadata: {{name: {name}, labels: {{etcd: {name}}}}}
spec:
  clusterIP: None
  publishNotReadyAddresses: true
  selector: {{etcd: {name}}}
  ports: [{{name: client, port: 2379}}, {{name: peer, port: 2380}}]
---
apiVersion: v1
kind: Service
metadata: {{name: {name}-client, labels: {{etcd: {name}}}}}
spec:
  selector: {{etcd: {name}}}
  ports: [{{name: client, port: 2379}}]
"
        )
    }

    /// One member.
    #[must_use]
    pub fn pod(&self, member: &str) -> String {
        let (name, version, host) = (self.name, self.version, self.host(member));
        let mut initial_cluster = String::new();
        for other in self.members() {
            let comma = if initial_cluster.is_empty() { "" } else { "," };
            // Writing to a String does not fail.
            let _ = write!(initial_cluster, "{comma}{other}=http://{}:2380", self.host(&other));
        }
        format!(
            "
apiVersion: v1
kind: Pod
metadata: {{name: {member}, labels: {{etcd: {name}}}}}
spec:
  hostname: {member}
  subdomain: {name}
  terminationGracePeriodSeconds: 5
  topologySpreadConstraints:
  - maxSkew: 1
    topologyKey: kubernetes.io/hostname
    whenUnsatisfiable: DoNotSchedule
    labelSelector: {{matchLabels: {{etcd: {name}}}}}
  containers:
  - name: etcd
    image: quay.io/coreos/etcd:v{version}
    command:
    - /usr/local/bin/etcd
    - --name={member}
    - --data-dir=/var/etcd/data
    - --listen-peer-urls=http://0.0.0.0:2380
    - --listen-client-urls=http://0.0.0.0:2379
    - --initial-advertise-peer-urls=http://{host}:2380
    - --advertise-client-urls=http://{host}:2379
    - --initial-cluster={initial_cluster}
    - --initial-cluster-state=new
    - --initial-cluster-token={name}
    ports: [{{name: client, containerPort: 2379}}, {{name: peer, containerPort: 2380}}]
    readinessProbe: {{httpGet: {{path: /health, port: 2379}}, periodSeconds: 1}}
    volumeMounts: [{{name: data, mountPath: /var/etcd}}]
  volumes: [{{name: data, emptyDir: {{}}}}]
"
        )
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Pod;

    use super::*;

    #[test]
    fn every_member_knows_all_members_by_the_names_that_dns_gives_them() {
        let etcd = HandMade { name: "e", namespace: "t-x", version: "3.6.14", size: 3 };
        let pod: Pod = serde_saphyr::from_str(&etcd.pod("e-1")).unwrap();
        let spec = pod.spec.unwrap();
        let argv = spec.containers[0].command.clone().unwrap();
        let everyone = "--initial-cluster=e-0=http://e-0.e.t-x.svc:2380,e-1=http://e-1.e.t-x.svc:2380,e-2=http://e-2.e.t-x.svc:2380";
        assert!(argv.iter().any(|arg| arg == everyone), "{argv:?}");
        assert_eq!((spec.hostname.as_deref(), spec.subdomain.as_deref()), (Some("e-1"), Some("e")));
    }

    #[test]
    fn the_manifest_is_two_services_and_a_pod_per_member() {
        let etcd = HandMade { name: "e", namespace: "t-x", version: "3.6.14", size: 3 };
        let kinds: Vec<_> =
            etcd.manifest().lines().filter(|line| line.starts_with("kind:")).map(str::to_owned).collect();
        assert_eq!(kinds, ["kind: Service", "kind: Service", "kind: Pod", "kind: Pod", "kind: Pod"]);
    }
}
