package main

import (
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
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

type goPackage struct{ alias, path, model, name string }

var packages = []goPackage{
	{"apps", "k8s.io/api/apps/v1", "io.k8s.api.apps.v1", "v1"},
	{"authn", "k8s.io/api/authentication/v1", "io.k8s.api.authentication.v1", "v1"},
	{"authz", "k8s.io/api/authorization/v1", "io.k8s.api.authorization.v1", "v1"},
	{"scale", "k8s.io/api/autoscaling/v1", "io.k8s.api.autoscaling.v1", "v1"},
	{"coord", "k8s.io/api/coordination/v1", "io.k8s.api.coordination.v1", "v1"},
	{"core", "k8s.io/api/core/v1", "io.k8s.api.core.v1", "v1"},
	{"slice", "k8s.io/api/discovery/v1", "io.k8s.api.discovery.v1", "v1"},
	{"events", "k8s.io/api/events/v1", "io.k8s.api.events.v1", "v1"},
	{"policy", "k8s.io/api/policy/v1", "io.k8s.api.policy.v1", "v1"},
	{"rbac", "k8s.io/api/rbac/v1", "io.k8s.api.rbac.v1", "v1"},
	{"crd", "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1", "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1", "v1"},
	{"meta", "k8s.io/apimachinery/pkg/apis/meta/v1", "io.k8s.apimachinery.pkg.apis.meta.v1", "v1"},
}

var served = [][2]string{
	{"/v1", "core"},
	{"apps/v1", "apps"},
	{"authentication.k8s.io/v1", "authn"},
	{"authorization.k8s.io/v1", "authz"},
	{"autoscaling/v1", "scale"},
	{"coordination.k8s.io/v1", "coord"},
	{"discovery.k8s.io/v1", "slice"},
	{"events.k8s.io/v1", "events"},
	{"policy/v1", "policy"},
	{"rbac.authorization.k8s.io/v1", "rbac"},
	{"apiextensions.k8s.io/v1", "crd"},
	{"meta.k8s.io/v1", "meta"},
}

// What the server stores or is sent; everything they refer to comes with them.
var roots = []any{
	corev1.NamespaceList{}, corev1.SecretList{}, corev1.ConfigMapList{}, corev1.EventList{}, corev1.ServiceList{},
	corev1.ServiceAccountList{}, corev1.PodList{}, corev1.NodeList{}, corev1.EndpointsList{}, corev1.Binding{},
	appsv1.DeploymentList{}, appsv1.ReplicaSetList{},
	discoveryv1.EndpointSliceList{}, coordinationv1.LeaseList{}, eventsv1.EventList{},
	rbacv1.RoleList{}, rbacv1.RoleBindingList{}, rbacv1.ClusterRoleList{}, rbacv1.ClusterRoleBindingList{},
	apiextensionsv1.CustomResourceDefinitionList{},
	authenticationv1.TokenReview{}, authenticationv1.TokenRequest{}, authenticationv1.SelfSubjectReview{},
	authorizationv1.SubjectAccessReview{}, authorizationv1.LocalSubjectAccessReview{},
	authorizationv1.SelfSubjectAccessReview{}, authorizationv1.SelfSubjectRulesReview{},
	autoscalingv1.Scale{}, policyv1.Eviction{},
	metav1.DeleteOptions{}, metav1.CreateOptions{}, metav1.UpdateOptions{}, metav1.PatchOptions{}, metav1.Status{},
	metav1.WatchEvent{}, metav1.APIGroupList{}, metav1.APIVersions{}, metav1.APIResourceList{},
}
