// A kubelet that forwards ports and does nothing else: the kubelet's own HTTPS server, with its own authentication and
// authorization, before the streaming server of container runtimes. What is played is the runtime: pods are processes
// that somebody else has started.
package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"flag"
	"log"
	"os"

	"go.opentelemetry.io/otel/trace/noop"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/authentication/authenticatorfactory"
	"k8s.io/apiserver/pkg/authorization/authorizerfactory"
	"k8s.io/apiserver/pkg/server/dynamiccertificates"
	"k8s.io/apiserver/pkg/server/options"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/kubernetes/pkg/kubelet/apis/config"
	"k8s.io/kubernetes/pkg/kubelet/server"
)

var (
	node       = flag.String("node", "", "the name of its Node")
	address    = flag.String("address", "127.0.0.1", "where it listens")
	port       = flag.Int("port", 10250, "where it listens")
	kubeconfig = flag.String("kubeconfig", "", "how it asks the API server for pods, and who may do what")
	clientCA   = flag.String("client-ca-file", "", "who signs the certificates of those who may ask")
	cert       = flag.String("tls-cert-file", "", "the certificate that it shows")
	key        = flag.String("tls-private-key-file", "", "the key of the certificate")
)

func main() {
	flag.Parse()
	ctx := context.Background()
	client := client()
	host := &host{node: *node, client: client, streams: streams(client)}
	configuration := &config.KubeletConfiguration{Address: *address, Port: int32(*port), EnableDebuggingHandlers: true}
	// It does not return while it serves.
	server.ListenAndServeKubeletServer(ctx, host, nil, nil, nil, configuration, serving(), auth(client), noop.NewTracerProvider())
}

func client() kubernetes.Interface {
	settings, err := clientcmd.BuildConfigFromFlags("", *kubeconfig)
	must(err)
	client, err := kubernetes.NewForConfig(settings)
	must(err)
	return client
}

// As `InitializeTLS` of the kubelet: client certificates are asked for, and looked at by the authenticator.
func serving() *tls.Config {
	pair, err := tls.LoadX509KeyPair(*cert, *key)
	must(err)
	pem, err := os.ReadFile(*clientCA)
	must(err)
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(pem)
	return &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{pair}, ClientAuth: tls.RequestClientCert, ClientCAs: pool}
}

// As `BuildAuth` of the kubelet with its defaults: who asks is known by a certificate, and the API server says what they may.
func auth(client kubernetes.Interface) server.AuthInterface {
	authority, err := dynamiccertificates.NewDynamicCAContentFromFile("client-ca-bundle", *clientCA)
	must(err)
	who, _, err := authenticatorfactory.DelegatingAuthenticatorConfig{ClientCertificateCAContentProvider: authority}.New()
	must(err)
	may, err := authorizerfactory.DelegatingAuthorizerConfig{
		SubjectAccessReviewClient: client.AuthorizationV1(),
		WebhookRetryBackoff:       options.DefaultAuthWebhookRetryBackoff(),
	}.New()
	must(err)
	return server.NewKubeletAuth(who, server.NewNodeAuthorizerAttributesGetter(types.NodeName(*node)), may, authority)
}

func must(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
