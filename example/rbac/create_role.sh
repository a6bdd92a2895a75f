#!/usr/bin/env bash
# Generated from the operator's rules by `cargo xtask generate`. Do not edit.
# Lets the operator do its work with the default account of a namespace, and make its CRDs.
set -o errexit -o nounset -o pipefail

ROLE_NAME="${ROLE_NAME:-etcd-operator}"
ROLE_BINDING_NAME="${ROLE_BINDING_NAME:-etcd-operator}"
NAMESPACE="${NAMESPACE:-default}"

usage() {
  echo "usage: $0 [--role-name=NAME] [--role-binding-name=NAME] [--namespace=NAMESPACE]"
  echo "The same can be said in ROLE_NAME, ROLE_BINDING_NAME and NAMESPACE."
}

for argument in "$@"; do
  case "$argument" in
    --role-name=?*) ROLE_NAME="${argument#*=}" ;;
    --role-binding-name=?*) ROLE_BINDING_NAME="${argument#*=}" ;;
    --namespace=?*) NAMESPACE="${argument#*=}" ;;
    -h | --help) usage; exit 0 ;;
    *) echo "unknown argument: $argument" >&2; usage >&2; exit 2 ;;
  esac
done

# create fails where the name is in use: a role of somebody else is not taken over.
kubectl create -f - <<ROLE
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  name: ${ROLE_NAME}
rules:
- apiGroups:
  - etcd.database.coreos.com
  resources:
  - etcdclusters
  - etcdbackups
  - etcdrestores
  verbs:
  - get
  - list
  - watch
- apiGroups:
  - etcd.database.coreos.com
  resources:
  - etcdclusters/status
  verbs:
  - patch
  - update
- apiGroups:
  - etcd.database.coreos.com
  resources:
  - etcdbackups/status
  - etcdrestores/status
  verbs:
  - patch
- apiGroups:
  - ""
  resources:
  - pods
  verbs:
  - create
  - delete
  - get
  - list
  - patch
  - watch
- apiGroups:
  - ""
  resources:
  - services
  verbs:
  - create
  - get
  - list
  - patch
  - watch
- apiGroups:
  - policy
  resources:
  - poddisruptionbudgets
  verbs:
  - create
  - get
  - list
  - patch
  - watch
- apiGroups:
  - ""
  resources:
  - events
  verbs:
  - create
- apiGroups:
  - coordination.k8s.io
  resources:
  - leases
  verbs:
  - create
- apiGroups:
  - coordination.k8s.io
  resourceNames:
  - etcd-operator
  resources:
  - leases
  verbs:
  - get
  - update
- apiGroups:
  - coordination.k8s.io
  resourceNames:
  - etcd-operator-cluster-wide
  resources:
  - leases
  verbs:
  - get
  - list
  - update
- apiGroups:
  - apiextensions.k8s.io
  resources:
  - customresourcedefinitions
  verbs:
  - create
- apiGroups:
  - apiextensions.k8s.io
  resourceNames:
  - etcdclusters.etcd.database.coreos.com
  - etcdbackups.etcd.database.coreos.com
  - etcdrestores.etcd.database.coreos.com
  resources:
  - customresourcedefinitions
  verbs:
  - get
  - patch
ROLE

kubectl create -f - <<BINDING
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata:
  name: ${ROLE_BINDING_NAME}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: ClusterRole
  name: ${ROLE_NAME}
subjects:
- kind: ServiceAccount
  name: default
  namespace: ${NAMESPACE}
BINDING
