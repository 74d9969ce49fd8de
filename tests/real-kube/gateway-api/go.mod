// The kinds of the Gateway API as their project publishes them. A module of its own: its dependencies are not those of Kubernetes.
module example.invalid/real-kube/gateway-api

go 1.26.0

require sigs.k8s.io/gateway-api v1.6.3
