// Program cluster is a Kubernetes control plane in one binary: the real servers, linked from their Go modules, for alertkube's tests.
//
//	cluster etcd FLAGS...       etcd, with etcd's own flags
//	cluster apiserver FLAGS...  the Kubernetes API server, with kube-apiserver's own flags
//
// One binary instead of two, because they share most of their code: it is half the size, and links in half the time. Since each word takes the flags
// of the program that it stands for, the tests can use separate binaries in its place (see KUBEBUILDER_ASSETS in tests/support).
package main

import (
	"fmt"
	"os"

	"go.etcd.io/etcd/server/v3/etcdmain"
	"k8s.io/component-base/cli"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
)

func main() {
	if len(os.Args) < 2 {
		fail("a word is missing")
	}
	word := os.Args[1]
	// Both servers read os.Args as if they were started under their own name.
	os.Args = append([]string{word}, os.Args[2:]...)
	switch word {
	case "etcd":
		etcdmain.Main(os.Args)
	case "apiserver":
		os.Exit(cli.Run(apiserver.NewAPIServerCommand()))
	default:
		fail(fmt.Sprintf("%q is not a word of this program", word))
	}
}

// fail says what is wrong and how to use the program, and ends it with the exit code that flag errors have in Go programs.
func fail(wrong string) {
	fmt.Fprintf(os.Stderr, "cluster: %s\nusage: cluster etcd|apiserver FLAGS...\n", wrong)
	os.Exit(2)
}
