package main

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"reflect"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	eventsv1 "k8s.io/api/events/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes/scheme"
)

const samplesHead = `# Objects as Go encodes them: kind, protobuf in base64, JSON. Made by "scripts/real-kube types"; not to be edited.
`

// One of each, every field set, and one with nothing set.
var samples = []runtime.Object{
	&corev1.Pod{}, &corev1.Node{}, &corev1.Service{}, &corev1.Secret{}, &corev1.ConfigMap{}, &corev1.Namespace{}, &corev1.Event{},
	&corev1.Endpoints{}, &corev1.ServiceAccount{}, &corev1.Binding{}, &eventsv1.Event{}, &coordinationv1.Lease{},
	&discoveryv1.EndpointSlice{}, &rbacv1.ClusterRole{}, &rbacv1.RoleBinding{}, &apiextensionsv1.CustomResourceDefinition{},
	&authenticationv1.TokenRequest{}, &authenticationv1.TokenReview{}, &authorizationv1.SubjectAccessReview{},
	&autoscalingv1.Scale{}, &policyv1.Eviction{}, &metav1.DeleteOptions{}, &metav1.Status{},
}

var bare = []runtime.Object{&appsv1.Deployment{}, &corev1.Pod{}, &corev1.Service{}, &coordinationv1.Lease{}, &corev1.Event{}}

func writeSamples(out io.Writer) {
	if err := apiextensionsv1.AddToScheme(scheme.Scheme); err != nil {
		panic(err)
	}
	fmt.Fprint(out, samplesHead)
	serializer := protobuf.NewSerializer(scheme.Scheme, scheme.Scheme)
	for _, object := range samples {
		fill(reflect.ValueOf(object).Elem(), 0)
		writeSample(out, serializer, object)
	}
	for _, object := range bare {
		writeSample(out, serializer, object.DeepCopyObject())
	}
}

func writeSample(out io.Writer, serializer runtime.Encoder, object runtime.Object) {
	kinds, _, err := scheme.Scheme.ObjectKinds(object)
	if err != nil {
		panic(err)
	}
	kind := kinds[0]
	if kind.Kind == "DeleteOptions" || kind.Kind == "Status" {
		kind = schema.GroupVersionKind{Version: "v1", Kind: kind.Kind}
	}
	object.GetObjectKind().SetGroupVersionKind(kind)
	var wire bytes.Buffer
	if err := serializer.Encode(object, &wire); err != nil {
		panic(err)
	}
	text, err := json.Marshal(object)
	if err != nil {
		panic(err)
	}
	fmt.Fprintf(out, "%s %s %s\n", kind.Kind, base64.StdEncoding.EncodeToString(wire.Bytes()), text)
}

const deepest = 12

func fill(value reflect.Value, depth int) {
	if fillSpecial(value) {
		return
	}
	// Schemas hold schemas; one level shows all of their fields.
	if inner, ok := value.Addr().Interface().(*apiextensionsv1.JSONSchemaProps); ok && depth > 6 {
		*inner = apiextensionsv1.JSONSchemaProps{Type: "string"}
		return
	}
	switch value.Kind() {
	case reflect.Pointer:
		if depth < deepest {
			value.Set(reflect.New(value.Type().Elem()))
			fill(value.Elem(), depth)
		}
	case reflect.Struct:
		for i := 0; i < value.NumField(); i++ {
			if value.Type().Field(i).IsExported() && value.Type().Field(i).Name != "TypeMeta" {
				fill(value.Field(i), depth+1)
			}
		}
	case reflect.Slice:
		fillSlice(value, depth)
	case reflect.Map:
		if depth < deepest {
			inner := reflect.New(value.Type().Elem()).Elem()
			fill(inner, depth+1)
			value.Set(reflect.MakeMap(value.Type()))
			value.SetMapIndex(reflect.ValueOf("k").Convert(value.Type().Key()), inner)
		}
	case reflect.String:
		value.SetString("s")
	case reflect.Bool:
		value.SetBool(true)
	case reflect.Int32, reflect.Int64:
		value.SetInt(-7)
	case reflect.Float64:
		value.SetFloat(2.5)
	}
}

func fillSlice(value reflect.Value, depth int) {
	if value.Type().Elem().Kind() == reflect.Uint8 {
		value.SetBytes([]byte{0, 255})
		return
	}
	if depth < deepest {
		inner := reflect.New(value.Type().Elem()).Elem()
		fill(inner, depth+1)
		value.Set(reflect.Append(reflect.MakeSlice(value.Type(), 0, 1), inner))
	}
}

func fillSpecial(value reflect.Value) bool {
	moment := time.Date(2026, 11, 16, 5, 6, 7, 123456000, time.UTC)
	switch target := value.Addr().Interface().(type) {
	case *metav1.Time:
		*target = metav1.NewTime(moment)
	case *metav1.MicroTime:
		*target = metav1.NewMicroTime(moment)
	case *metav1.Duration:
		*target = metav1.Duration{Duration: 90 * time.Second}
	case *metav1.FieldsV1:
		*target = metav1.FieldsV1{Raw: []byte(`{"f:a":{}}`)}
	case *resource.Quantity:
		*target = resource.MustParse("1500m")
	case *intstr.IntOrString:
		*target = intstr.FromString("25%")
	case *runtime.RawExtension:
		*target = runtime.RawExtension{Raw: []byte(`{"a":1}`)}
	case *apiextensionsv1.JSON:
		*target = apiextensionsv1.JSON{Raw: []byte(`[1,"a"]`)}
	case *apiextensionsv1.JSONSchemaPropsOrArray:
		*target = apiextensionsv1.JSONSchemaPropsOrArray{Schema: &apiextensionsv1.JSONSchemaProps{Type: "string"}}
	case *apiextensionsv1.JSONSchemaPropsOrBool:
		*target = apiextensionsv1.JSONSchemaPropsOrBool{Allows: true}
	case *apiextensionsv1.JSONSchemaPropsOrStringArray:
		*target = apiextensionsv1.JSONSchemaPropsOrStringArray{Property: []string{"p"}}
	default:
		return false
	}
	return true
}
