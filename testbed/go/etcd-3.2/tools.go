//go:build tools

package tools

import (
	_ "github.com/coreos/etcd"
	_ "github.com/coreos/etcd/etcdctl"
)
