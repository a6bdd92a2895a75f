//! A real three-node Kubernetes with real etcd on one machine.
