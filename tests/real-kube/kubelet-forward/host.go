package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/cri-streaming/pkg/streaming"
	"k8s.io/cri-streaming/pkg/streaming/portforward"
	"k8s.io/kubernetes/pkg/kubelet/server"
)

// What is left of a kubelet. Whoever asks it for anything else meets the nil of the interface.
type host struct {
	server.HostInterface
	node    string
	client  kubernetes.Interface
	streams streaming.Server
}

func (h *host) SyncLoopHealthCheck(*http.Request) error { return nil }

// Its own pods alone, as a kubelet has them.
func (h *host) GetPodByName(namespace, name string) (*v1.Pod, bool) {
	pod, err := h.client.CoreV1().Pods(namespace).Get(context.Background(), name, metav1.GetOptions{})
	return pod, err == nil && pod.Spec.NodeName == h.node
}

func (h *host) GetPortForward(_ context.Context, name, namespace string, _ types.UID, options portforward.V4Options) (*url.URL, error) {
	answer, err := h.streams.GetPortForward(&runtimeapi.PortForwardRequest{PodSandboxId: namespace + "/" + name, Port: options.Ports})
	if err != nil {
		return nil, err
	}
	return url.Parse(answer.Url)
}

// The container runtime, as far as it forwards ports.
type runtime struct {
	streaming.Runtime
	client kubernetes.Interface
}

// The streaming server of a container runtime, at a port of its own; as there, the kubelet is a proxy before it.
func streams(client kubernetes.Interface) streaming.Server {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(err)
	settings := streaming.DefaultConfig
	settings.Addr = listener.Addr().String()
	serves, err := streaming.NewServer(settings, &runtime{client: client})
	must(err)
	go func() { must(http.Serve(listener, serves)) }()
	return serves
}

// As containerd does it: it dials the loopback of the pod, both ways are copied at once, and when one has ended the other
// has a second.
func (r *runtime) PortForward(ctx context.Context, sandbox string, port int32, stream io.ReadWriteCloser) error {
	namespace, name, _ := strings.Cut(sandbox, "/")
	pod, err := r.client.CoreV1().Pods(namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	conn, err := net.Dial("tcp", net.JoinHostPort(loopback(pod), strconv.Itoa(int(port))))
	if err != nil {
		return fmt.Errorf("failed to dial %d: %w", port, err)
	}
	defer conn.Close()
	ended := make(chan error, 2)
	copies := func(to io.Writer, from io.Reader) {
		_, err := io.Copy(to, from)
		ended <- err
	}
	go copies(stream, conn)
	go copies(conn, stream)
	err = <-ended
	select {
	case other := <-ended:
		if err == nil {
			err = other
		}
	case <-time.After(time.Second):
	}
	return err
}

// A pod has no network of its own here, so each has a loopback address: 127.x.y.z for one at 10.x.y.z.
func loopback(pod *v1.Pod) string {
	_, rest, _ := strings.Cut(pod.Status.PodIP, ".")
	return "127." + rest
}
