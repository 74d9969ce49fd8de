// Writes the table of built-in types: what crates/embedded-kube must know about the Go types of Kubernetes
// to decode, prune, merge and describe them. Facts only: names, numbers and tags, no descriptions.
//
// Run by `scripts/real-kube types`; the head of the output says how to read it.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"sort"
	"strings"

	"k8s.io/kube-openapi/pkg/common"
	"k8s.io/kube-openapi/pkg/validation/spec"
	"k8s.io/kubernetes/pkg/generated/openapi"
)

const head = `# Built-in types of Kubernetes v1.36.3, from its Go types and OpenAPI definitions. Made by "scripts/real-kube types"; not to be edited.
# package ALIAS OPENAPI-PREFIX GO-PACKAGE           serves GROUP/VERSION ALIAS
# enum ALIAS.Name values...
# type ALIAS.Name [atomic]        followed by its fields, each after one space:
#   NAME NUMBER TYPE [flags] [key=value]...         NUMBER is protobuf's; +NUMBER TYPE is a struct whose fields are inline
# TYPE: s string, s(GO) named string, b bool, i int32, l int64, f float64, y bytes, time, micro, duration, ios int-or-string, quantity,
#   raw, fields, json, either:X (values of free form), []T list, [set]T, [atomic]T, [map:k,k]T, {}T map, {atomic}T, *T pointer, ALIAS.Name struct
#   [..w]T: a list that is a message of its own in protobuf
# flags: o omitempty, z omitzero, r required, d default is the zero value; keys: m merge key, p patch strategy,
#   v default as JSON, g name of the Go type of a list or map
`

type table struct {
	definitions map[string]common.OpenAPIDefinition
	aliases     map[string]string // Go package path → alias
	seen        map[reflect.Type]bool
	queue       []reflect.Type
	enums       map[string][]string
}

func main() {
	out := bufio.NewWriter(os.Stdout)
	defer out.Flush()
	if len(os.Args) > 1 && os.Args[1] == "samples" {
		writeSamples(out)
		return
	}
	t := &table{
		definitions: openapi.GetOpenAPIDefinitions(func(path string) spec.Ref { return spec.MustCreateRef(path) }),
		aliases:     map[string]string{},
		seen:        map[reflect.Type]bool{},
		enums:       map[string][]string{},
	}
	fmt.Fprint(out, head)
	for _, p := range packages {
		t.aliases[p.path] = p.alias
		fmt.Fprintf(out, "package %s %s %s\n", p.alias, p.model, p.name)
	}
	for _, s := range served {
		fmt.Fprintf(out, "serves %s %s\n", s[0], s[1])
	}
	for _, root := range roots {
		t.need(reflect.TypeOf(root))
	}
	var lines []string
	for len(t.queue) > 0 {
		next := t.queue[0]
		t.queue = t.queue[1:]
		lines = append(lines, t.describe(next))
	}
	sort.Strings(lines)
	for _, name := range sortedKeys(t.enums) {
		fmt.Fprintf(out, "enum %s %s\n", name, strings.Join(t.enums[name], " "))
	}
	for _, line := range lines {
		fmt.Fprint(out, line)
	}
}

func sortedKeys(m map[string][]string) []string {
	var keys []string
	for k := range m {
		keys = append(keys, k)
	}
	sort.Strings(keys)
	return keys
}

func (t *table) need(typ reflect.Type) {
	if !t.seen[typ] {
		t.seen[typ] = true
		t.queue = append(t.queue, typ)
	}
}

func (t *table) name(typ reflect.Type) string {
	alias, ok := t.aliases[typ.PkgPath()]
	if !ok {
		panic("no alias for the package of " + typ.PkgPath() + "." + typ.Name())
	}
	return alias + "." + typ.Name()
}

func (t *table) definition(typ reflect.Type) spec.Schema {
	for _, p := range packages {
		if p.path == typ.PkgPath() {
			return t.definitions[p.model+"."+typ.Name()].Schema
		}
	}
	return spec.Schema{}
}

func (t *table) describe(typ reflect.Type) string {
	var b strings.Builder
	schema := t.definition(typ)
	fmt.Fprintf(&b, "type %s", t.name(typ))
	if schema.Extensions["x-kubernetes-map-type"] == "atomic" {
		b.WriteString(" atomic")
	}
	b.WriteByte('\n')
	required := map[string]bool{}
	for _, r := range schema.Required {
		required[r] = true
	}
	for i := 0; i < typ.NumField(); i++ {
		t.field(&b, typ.Field(i), schema, required)
	}
	return b.String()
}

func protobufNumber(f reflect.StructField) string {
	parts := strings.Split(f.Tag.Get("protobuf"), ",")
	if len(parts) < 2 {
		return "0"
	}
	return parts[1]
}

func (t *table) field(b *strings.Builder, f reflect.StructField, schema spec.Schema, required map[string]bool) {
	name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
	if name == "-" || !f.IsExported() {
		return
	}
	if name == "" && f.Anonymous {
		embedded := f.Type
		if embedded.Kind() == reflect.Pointer {
			embedded = embedded.Elem()
		}
		t.need(embedded)
		fmt.Fprintf(b, " +%s %s\n", protobufNumber(f), t.name(embedded))
		return
	}
	if name == "" {
		name = f.Name
	}
	property := schema.Properties[name]
	flags := ""
	for _, option := range strings.Split(options, ",") {
		switch option {
		case "omitempty":
			flags += "o"
		case "omitzero":
			flags += "z"
		}
	}
	if required[name] {
		flags += "r"
	}
	keys := patchKeys(f)
	switch value := property.Default; {
	case value == nil:
	case isZero(value):
		flags += "d"
	default:
		keys += " v=" + compact(value)
	}
	expression := t.expression(f.Type, property, &keys)
	if flags == "" {
		flags = "-"
	}
	fmt.Fprintf(b, " %s %s %s %s%s\n", name, protobufNumber(f), expression, flags, keys)
}

func patchKeys(f reflect.StructField) string {
	keys := ""
	if key := f.Tag.Get("patchMergeKey"); key != "" {
		keys += " m=" + key
	}
	if strategy := f.Tag.Get("patchStrategy"); strategy != "" {
		keys += " p=" + strategy
	}
	return keys
}

func isZero(value any) bool {
	text := compact(value)
	return text == `""` || text == "{}" || text == "0" || text == "false"
}

func compact(value any) string {
	text, err := json.Marshal(value)
	if err != nil {
		panic(err)
	}
	return string(text)
}

// Types that write themselves to JSON in their own way.
var special = map[string]string{
	"k8s.io/apimachinery/pkg/apis/meta/v1.Time":                                             "time",
	"k8s.io/apimachinery/pkg/apis/meta/v1.MicroTime":                                        "micro",
	"k8s.io/apimachinery/pkg/apis/meta/v1.Duration":                                         "duration",
	"k8s.io/apimachinery/pkg/apis/meta/v1.FieldsV1":                                         "fields",
	"k8s.io/apimachinery/pkg/api/resource.Quantity":                                         "quantity",
	"k8s.io/apimachinery/pkg/util/intstr.IntOrString":                                       "ios",
	"k8s.io/apimachinery/pkg/runtime.RawExtension":                                          "raw",
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1.JSON":                         "json",
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1.JSONSchemaPropsOrArray":       "either:Array",
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1.JSONSchemaPropsOrBool":        "either:Bool",
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1.JSONSchemaPropsOrStringArray": "either:StringArray",
}

func (t *table) expression(typ reflect.Type, schema spec.Schema, keys *string) string {
	if word, ok := special[typ.PkgPath()+"."+typ.Name()]; ok {
		return word
	}
	switch typ.Kind() {
	case reflect.Pointer:
		return "*" + t.expression(typ.Elem(), schema, keys)
	case reflect.String:
		return t.text(typ, schema)
	case reflect.Bool:
		return "b"
	case reflect.Int32:
		return "i"
	case reflect.Int64:
		return "l"
	case reflect.Float64:
		return "f"
	case reflect.Slice:
		return t.list(typ, schema, keys)
	case reflect.Map:
		t.named(typ, keys)
		return "{" + mapType(schema) + "}" + t.expression(typ.Elem(), values(schema), keys)
	case reflect.Struct:
		t.need(typ)
		return t.name(typ)
	}
	panic("no word for " + typ.String())
}

func (t *table) text(typ reflect.Type, schema spec.Schema) string {
	if typ.PkgPath() == "" {
		return "s"
	}
	alias, ok := t.aliases[typ.PkgPath()]
	if !ok {
		return "s(" + typ.String() + ")"
	}
	name := alias + "." + typ.Name()
	if len(schema.Enum) > 0 {
		var values []string
		for _, value := range schema.Enum {
			text := fmt.Sprint(value)
			if text == "" {
				text = `""`
			}
			values = append(values, text)
		}
		t.enums[name] = values
	}
	return "s(" + name + ")"
}

func (t *table) list(typ reflect.Type, schema spec.Schema, keys *string) string {
	if typ.Elem().Kind() == reflect.Uint8 {
		return "y"
	}
	t.named(typ, keys)
	kind := ""
	if value, ok := schema.Extensions["x-kubernetes-list-type"].(string); ok {
		kind = value
	}
	if kind == "map" {
		kind += ":" + joined(schema.Extensions["x-kubernetes-list-map-keys"])
	}
	if _, ok := reflect.PointerTo(typ).MethodByName("Marshal"); ok {
		kind += "w"
	}
	return "[" + kind + "]" + t.expression(typ.Elem(), items(schema), keys)
}

func (t *table) named(typ reflect.Type, keys *string) {
	if typ.Name() != "" {
		*keys += " g=" + typ.String()
	}
}

func joined(value any) string {
	var texts []string
	list := reflect.ValueOf(value)
	for i := 0; i < list.Len(); i++ {
		texts = append(texts, fmt.Sprint(list.Index(i).Interface()))
	}
	return strings.Join(texts, ",")
}

func mapType(schema spec.Schema) string {
	if schema.Extensions["x-kubernetes-map-type"] == "atomic" {
		return "atomic"
	}
	return ""
}

func items(schema spec.Schema) spec.Schema {
	if schema.Items != nil && schema.Items.Schema != nil {
		return *schema.Items.Schema
	}
	return spec.Schema{}
}

func values(schema spec.Schema) spec.Schema {
	if schema.AdditionalProperties != nil && schema.AdditionalProperties.Schema != nil {
		return *schema.AdditionalProperties.Schema
	}
	return spec.Schema{}
}
