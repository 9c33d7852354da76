// Program cluster is a Kubernetes control plane in one binary: the real servers, linked from their Go modules, for alertkube's tests.
//
//	cluster etcd FLAGS...                etcd, with etcd's own flags
//	cluster apiserver FLAGS...           the Kubernetes API server, with kube-apiserver's own flags
//	cluster controller-manager FLAGS...  the controllers (StatefulSets and so on), with kube-controller-manager's own flags
//	cluster kubectl ARGUMENTS...         kubectl, kustomize included
//
// One binary instead of four, because they share most of their code: it is a fraction of the size, and links in a fraction of the time. Since each word takes the
// flags of the program that it stands for, the tests can use separate binaries in its place (see KUBEBUILDER_ASSETS in tests/support).
package main

import (
	"fmt"
	"os"

	"go.etcd.io/etcd/server/v3/etcdmain"
	"k8s.io/component-base/cli"
	kubectl "k8s.io/kubectl/pkg/cmd"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllermanager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
)

func main() {
	if len(os.Args) < 2 {
		fail("a word is missing")
	}
	word := os.Args[1]
	// All of them read os.Args as if they were started under their own name.
	os.Args = append([]string{word}, os.Args[2:]...)
	switch word {
	case "etcd":
		etcdmain.Main(os.Args)
	case "apiserver":
		os.Exit(cli.Run(apiserver.NewAPIServerCommand()))
	case "controller-manager":
		os.Exit(cli.Run(controllermanager.NewControllerManagerCommand()))
	case "kubectl":
		os.Exit(cli.Run(kubectl.NewDefaultKubectlCommand()))
	default:
		fail(fmt.Sprintf("%q is not a word of this program", word))
	}
}

// fail says what is wrong and how to use the program, and ends it with the exit code that flag errors have in Go programs.
func fail(wrong string) {
	fmt.Fprintf(os.Stderr, "cluster: %s\nusage: cluster etcd|apiserver|controller-manager|kubectl FLAGS...\n", wrong)
	os.Exit(2)
}
