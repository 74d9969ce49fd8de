use pretty_assertions::assert_eq;
use rstest::rstest;

use super::*;

fn error(summary: &str, detail: &str) -> Diagnostic {
    Diagnostic {
        severity: "error".to_owned(),
        summary: summary.to_owned(),
        detail: detail.to_owned(),
        ..Diagnostic::default()
    }
}

/// class, AWS code, summary, detail: as terraform 1.11 and the AWS provider 4 to 6 print them.
const REAL: &[(Class, Option<&str>, &str, &str)] = &[
    (
        Class::Wait,
        Some("ResourceInUseException"),
        "creating EKS Fargate Profile (demo:app): operation error EKS: CreateFargateProfile, https response error StatusCode: 409, RequestID: 5f7c1d0a-93d4-4d0b-a3a1-0d7f3b8d2a11, ResourceInUseException: Cannot create Fargate Profile app because cluster demo currently has Fargate profile system in status CREATING",
        "",
    ),
    (
        Class::Wait,
        Some("ResourceInUseException"),
        "deleting EKS Fargate Profile (demo:app): operation error EKS: DeleteFargateProfile, https response error StatusCode: 409, RequestID: 11111111-2222-3333-4444-555555555555, ResourceInUseException: Cannot Delete Fargate Profile app because cluster demo currently has Fargate profile system in status DELETING",
        "",
    ),
    (
        Class::Wait,
        Some("ResourceInUseException"),
        "updating EKS Cluster (demo) version: operation error EKS: UpdateClusterVersion, https response error StatusCode: 409, RequestID: 3d3b6c1e-7d0c-4b54-a1a8-8d3b1f0c9e0f, ResourceInUseException: Cannot UpdateClusterVersion because cluster demo currently has an update in progress",
        "",
    ),
    (
        Class::Wait,
        Some("ResourceInUseException"),
        "error creating EKS Fargate Profile (demo:app): ResourceInUseException: Cannot create Fargate Profile app because cluster demo currently has Fargate profile kube in status CREATING\n{\n  RespMetadata: {\n    StatusCode: 409,\n    RequestID: \"e2d2c8a0\"\n  },\n  ClusterName: \"demo\"\n}",
        "",
    ),
    (
        Class::Wait,
        Some("InvalidRequestException"),
        "creating EKS Add-On (demo:coredns): operation error EKS: CreateAddon, https response error StatusCode: 400, RequestID: 0a0a0a0a, InvalidRequestException: Cluster 'demo' is not in ACTIVE state",
        "",
    ),
    (
        Class::Wait,
        Some("ConcurrentModificationException"),
        "updating IAM Role (demo-cluster) assume role policy: operation error IAM: UpdateAssumeRolePolicy, https response error StatusCode: 409, RequestID: 6c0a, ConcurrentModificationException: Role is being modified by another request",
        "",
    ),
    (
        Class::Wait,
        None,
        "waiting for EKS Fargate Profile (demo:app) create: timeout while waiting for state to become 'ACTIVE' (last state: 'CREATING', timeout: 10m0s)",
        "",
    ),
    (
        Class::Throttle,
        Some("ThrottlingException"),
        "reading EKS Cluster (demo): operation error EKS: DescribeCluster, exceeded maximum number of attempts, 25, https response error StatusCode: 429, RequestID: 9c9f, api error ThrottlingException: Rate exceeded",
        "",
    ),
    (
        Class::Throttle,
        Some("RequestLimitExceeded"),
        "creating EC2 Subnet: operation error EC2: CreateSubnet, exceeded maximum number of attempts, 25, https response error StatusCode: 503, RequestID: 7f00aaaa, api error RequestLimitExceeded: Request limit exceeded.",
        "",
    ),
    (
        Class::Throttle,
        Some("Throttling"),
        "reading IAM Role (demo-cluster): operation error IAM: GetRole, https response error StatusCode: 400, RequestID: 0d9b, api error Throttling: Rate exceeded",
        "",
    ),
    (
        Class::Throttle,
        Some("TooManyRequestsException"),
        "reading Service Quotas: TooManyRequestsException: Too Many Requests\n\tstatus code: 429, request id: 7a7a",
        "",
    ),
    (
        Class::Throttle,
        None,
        "reading EC2 VPC (vpc-0abc): operation error EC2: DescribeVpcs, failed to get rate limit token, retry quota exceeded, 0 available, 5 requested",
        "",
    ),
    (
        Class::Propagation,
        Some("InvalidParameterException"),
        "creating EKS Fargate Profile (demo:app): operation error EKS: CreateFargateProfile, https response error StatusCode: 400, RequestID: 5a5a, InvalidParameterException: Misconfigured PodExecutionRole Trust Policy; Please add the eks-fargate-pods.amazonaws.com Service Principal",
        "",
    ),
    (
        Class::Propagation,
        Some("InvalidParameterException"),
        "creating EKS Cluster (demo): operation error EKS: CreateCluster, https response error StatusCode: 400, RequestID: 5b5b, InvalidParameterException: Role with arn: arn:aws:iam::123456789012:role/demo-cluster, could not be assumed because it does not exist or the trusted entity is not correct",
        "",
    ),
    (
        Class::Propagation,
        Some("NoSuchEntity"),
        "attaching IAM Policy (arn:aws:iam::aws:policy/AmazonEKSClusterPolicy) to IAM Role (demo-cluster): operation error IAM: AttachRolePolicy, https response error StatusCode: 404, RequestID: 8c8c, NoSuchEntity: The role with name demo-cluster cannot be found.",
        "",
    ),
    (
        Class::Propagation,
        Some("InvalidSubnetID.NotFound"),
        "creating Route Table Association: operation error EC2: AssociateRouteTable, https response error StatusCode: 400, RequestID: 9d9d, api error InvalidSubnetID.NotFound: The subnet ID 'subnet-0abc' does not exist",
        "",
    ),
    (
        Class::Propagation,
        Some("MalformedPolicyDocument"),
        "updating KMS Key (1234) policy: MalformedPolicyDocument: Invalid principal in policy: \"AWS\":\"arn:aws:iam::123456789012:role/new\"\n\tstatus code: 400, request id: 4e4e",
        "",
    ),
    (
        Class::UserFix,
        Some("AccessDeniedException"),
        "creating EKS Cluster (demo): operation error EKS: CreateCluster, https response error StatusCode: 403, RequestID: 6e6e, api error AccessDeniedException: User: arn:aws:iam::123456789012:user/ci is not authorized to perform: eks:CreateCluster on resource: arn:aws:eks:eu-west-1:123456789012:cluster/demo",
        "",
    ),
    (
        Class::UserFix,
        Some("UnauthorizedOperation"),
        "creating EC2 VPC: operation error EC2: CreateVpc, https response error StatusCode: 403, RequestID: 7e7e, api error UnauthorizedOperation: You are not authorized to perform this operation. Encoded authorization failure message: AbCdEf",
        "",
    ),
    (
        Class::UserFix,
        Some("InvalidParameterException"),
        "creating EKS Cluster (demo): operation error EKS: CreateCluster, https response error StatusCode: 400, RequestID: 8e8e, InvalidParameterException: unsupported Kubernetes version",
        "",
    ),
    (
        Class::UserFix,
        Some("InvalidParameterException"),
        "creating EKS Fargate Profile (demo:app): operation error EKS: CreateFargateProfile, https response error StatusCode: 400, RequestID: 9e9e, InvalidParameterException: Subnet subnet-0abc provided in Fargate Profile is not a private subnet",
        "",
    ),
    (
        Class::UserFix,
        Some("UnsupportedAvailabilityZoneException"),
        "creating EKS Cluster (demo): operation error EKS: CreateCluster, https response error StatusCode: 400, RequestID: 1f1f, UnsupportedAvailabilityZoneException: Cannot create cluster 'demo' because EKS does not support creating control plane instances in us-east-1e, the targeted availability zone. Retry cluster creation using control plane subnets that span at least two of these availability zones: us-east-1a, us-east-1b.",
        "",
    ),
    (
        Class::UserFix,
        Some("ResourceInUseException"),
        "creating EKS Cluster (demo): operation error EKS: CreateCluster, https response error StatusCode: 409, RequestID: 2f2f, ResourceInUseException: Cluster already exists with name: demo",
        "",
    ),
    (
        Class::UserFix,
        Some("ResourceInUseException"),
        "creating EKS Fargate Profile (demo:app): operation error EKS: CreateFargateProfile, https response error StatusCode: 409, RequestID: 3f3f, ResourceInUseException: A Fargate Profile already exists with this name in this cluster.",
        "",
    ),
    (
        Class::UserFix,
        Some("EntityAlreadyExists"),
        "creating IAM Role (demo-cluster): operation error IAM: CreateRole, https response error StatusCode: 409, RequestID: 4f4f, EntityAlreadyExists: Role with name demo-cluster already exists.",
        "",
    ),
    (
        Class::UserFix,
        Some("ResourceAlreadyExistsException"),
        "creating CloudWatch Logs Log Group (/aws/eks/demo/cluster): operation error CloudWatch Logs: CreateLogGroup, https response error StatusCode: 400, RequestID: 5f5f, ResourceAlreadyExistsException: The specified log group already exists",
        "",
    ),
    (
        Class::UserFix,
        Some("InvalidSubnet.Conflict"),
        "creating EC2 Subnet: operation error EC2: CreateSubnet, https response error StatusCode: 400, RequestID: 6f6f, api error InvalidSubnet.Conflict: The CIDR '10.0.0.0/20' conflicts with another subnet",
        "",
    ),
    (
        Class::UserFix,
        Some("ValidationError"),
        "creating IAM Role (x): operation error IAM: CreateRole, https response error StatusCode: 400, RequestID: 7f7f, api error ValidationError: 1 validation error detected: Value at 'roleName' failed to satisfy constraint: Member must have length less than or equal to 64",
        "",
    ),
    (Class::UserFix, None, "Unsupported argument", "An argument named \"subnets\" is not expected here."),
    (
        Class::UserFix,
        None,
        "Missing required argument",
        "The argument \"role_arn\" is required, but no definition was found.",
    ),
    (
        Class::UserFix,
        None,
        "No value for required variable",
        "The root module input variable \"cluster_name\" is not set, and has no default value. Use a -var or -var-file command line argument to provide a value for this variable.",
    ),
    (
        Class::UserFix,
        None,
        "Invalid value for variable",
        "var.nat is \"many\"\n\nnat must be one of none, single, per_az.\n\nThis was checked by the validation rule at variables.tf:30,3-13.",
    ),
    (
        Class::UserFix,
        None,
        "Reference to undeclared input variable",
        "An input variable with the name \"regoin\" has not been declared. Did you mean \"region\"?",
    ),
    (
        Class::Quota,
        Some("VpcLimitExceeded"),
        "creating EC2 VPC: operation error EC2: CreateVpc, https response error StatusCode: 400, RequestID: 8f8f, api error VpcLimitExceeded: The maximum number of VPCs has been reached.",
        "",
    ),
    (
        Class::Quota,
        Some("AddressLimitExceeded"),
        "creating EC2 EIP: operation error EC2: AllocateAddress, https response error StatusCode: 400, RequestID: 9f9f, api error AddressLimitExceeded: The maximum number of addresses has been reached.",
        "",
    ),
    (
        Class::Quota,
        Some("ResourceLimitExceededException"),
        "creating EKS Fargate Profile (demo:app): operation error EKS: CreateFargateProfile, https response error StatusCode: 400, RequestID: a1a1, ResourceLimitExceededException: Fargate Profile count limit exceeded for cluster",
        "",
    ),
    (
        Class::Quota,
        Some("ServiceQuotaExceededException"),
        "creating X: operation error EKS: CreatePodIdentityAssociation, https response error StatusCode: 402, RequestID: b1b1, api error ServiceQuotaExceededException: quota reached",
        "",
    ),
    (
        Class::Quota,
        Some("NatGatewayLimitExceeded"),
        "creating EC2 NAT Gateway: operation error EC2: CreateNatGateway, https response error StatusCode: 400, RequestID: b2b2, api error NatGatewayLimitExceeded: The maximum number of NAT Gateways has been reached.",
        "",
    ),
    (
        Class::Dependency,
        Some("DependencyViolation"),
        "deleting EC2 VPC (vpc-0abc): operation error EC2: DeleteVpc, https response error StatusCode: 400, RequestID: c1c1, api error DependencyViolation: The vpc 'vpc-0abc' has dependencies and cannot be deleted.",
        "",
    ),
    (
        Class::Dependency,
        Some("DependencyViolation"),
        "deleting EC2 Subnet (subnet-0abc): DependencyViolation: The subnet 'subnet-0abc' has dependencies and cannot be deleted.\n\tstatus code: 400, request id: 8d61aabb",
        "",
    ),
    (
        Class::Dependency,
        Some("DeleteConflict"),
        "deleting IAM Role (demo-cluster): operation error IAM: DeleteRole, https response error StatusCode: 409, RequestID: d1d1, DeleteConflict: Cannot delete entity, must detach all policies first.",
        "",
    ),
    (
        Class::Dependency,
        Some("ResourceInUseException"),
        "deleting EKS Cluster (demo): operation error EKS: DeleteCluster, https response error StatusCode: 409, RequestID: e1e1, ResourceInUseException: Cluster has Fargate Profiles in ACTIVE state",
        "",
    ),
    (
        Class::Dependency,
        Some("ResourceInUseException"),
        "deleting EKS Cluster (demo): operation error EKS: DeleteCluster, https response error StatusCode: 409, RequestID: e2e2, ResourceInUseException: Cluster has nodegroups attached",
        "",
    ),
    (
        Class::Lock,
        None,
        "Error acquiring the state lock",
        "Error message: resource temporarily unavailable\nLock Info:\n  ID:        9db590f1-b6fe-c5f2-2678-8804f089deba\n  Path:      terraform.tfstate\n  Operation: OperationTypeApply\n  Who:       root@host\n  Version:   1.11.4\n  Created:   2026-11-16 02:16:33 +0000 UTC\n\nTerraform acquires a state lock to protect the state from being written\nby multiple users at the same time. Please resolve the issue above and try\nagain. For most commands, you can disable locking with the \"-lock=false\"\nflag, but this is not recommended.",
    ),
    (
        Class::Expired,
        Some("ExpiredToken"),
        "Retrieving AWS account details: validating provider credentials: retrieving caller identity from STS: operation error STS: GetCallerIdentity, https response error StatusCode: 403, RequestID: f1f1, api error ExpiredToken: The security token included in the request is expired",
        "",
    ),
    (
        Class::Expired,
        Some("RequestExpired"),
        "reading EC2 VPC (vpc-0abc): operation error EC2: DescribeVpcs, https response error StatusCode: 400, RequestID: f2f2, api error RequestExpired: Request has expired.",
        "",
    ),
    (
        Class::Expired,
        Some("InvalidClientTokenId"),
        "validating provider credentials: retrieving caller identity from STS: operation error STS: GetCallerIdentity, https response error StatusCode: 403, RequestID: f3f3, api error InvalidClientTokenId: The security token included in the request is invalid.",
        "",
    ),
    (
        Class::Expired,
        Some("UnrecognizedClientException"),
        "reading EKS Cluster (demo): operation error EKS: DescribeCluster, https response error StatusCode: 403, RequestID: f4f4, api error UnrecognizedClientException: The security token included in the request is invalid.",
        "",
    ),
    (
        Class::Expired,
        None,
        "No valid credential sources found",
        "Please see https://registry.terraform.io/providers/hashicorp/aws\nfor more information about providing credentials.\n\nError: failed to refresh cached credentials, refresh cached SSO token failed, unable to refresh SSO token",
    ),
    (
        Class::Credentials,
        None,
        "No valid credential sources found",
        "Please see https://registry.terraform.io/providers/hashicorp/aws\nfor more information about providing credentials.\n\nError: failed to refresh cached credentials, no EC2 IMDS role found, operation error ec2imds: GetMetadata, request canceled, context deadline exceeded",
    ),
    (
        Class::Credentials,
        Some("SignatureDoesNotMatch"),
        "validating provider credentials: retrieving caller identity from STS: operation error STS: GetCallerIdentity, https response error StatusCode: 403, RequestID: f5f5, api error SignatureDoesNotMatch: The request signature we calculated does not match the signature you provided.",
        "",
    ),
    (
        Class::Credentials,
        Some("AuthFailure"),
        "reading EC2 VPCs: operation error EC2: DescribeVpcs, https response error StatusCode: 401, RequestID: f6f6, api error AuthFailure: AWS was not able to validate the provided access credentials",
        "",
    ),
    (
        Class::Credentials,
        Some("AccessDenied"),
        "Cannot assume IAM Role",
        "IAM Role (arn:aws:iam::123456789012:role/deployer) cannot be assumed.\n\nThere are a number of possible causes of this - the most common are:\n  * The credentials used in order to assume the role are invalid\n\nError: operation error STS: AssumeRole, https response error StatusCode: 403, RequestID: f7f7, api error AccessDenied: User: arn:aws:iam::123456789012:user/ci is not authorized to perform: sts:AssumeRole",
    ),
    (
        Class::Protected,
        None,
        "Instance cannot be destroyed",
        "Resource aws_vpc.this has lifecycle.prevent_destroy set, but the plan calls for this resource to be destroyed. To avoid this error and continue with the plan, either disable lifecycle.prevent_destroy or reduce the scope of the plan using the -target option.",
    ),
    (
        Class::Protected,
        Some("InvalidRequestException"),
        "deleting EKS Cluster (demo): operation error EKS: DeleteCluster, https response error StatusCode: 400, RequestID: a2a2, InvalidRequestException: Cannot delete cluster demo because deletion protection is enabled",
        "",
    ),
    (
        Class::StalePlan,
        None,
        "Saved plan is stale",
        "The given plan file can no longer be applied because the state was changed by another operation after the plan was created.",
    ),
    (Class::Interrupted, None, "execution halted", ""),
    (
        Class::Interrupted,
        None,
        "creating EKS Cluster (demo): waiting for completion: operation error EKS: DescribeCluster, https response error StatusCode: 0, RequestID: , canceled, context canceled",
        "",
    ),
    (
        Class::Provider,
        None,
        "Failed to query available provider packages",
        "Could not retrieve the list of available versions for provider hashicorp/aws: could not connect to registry.terraform.io: failed to request discovery document",
    ),
    (
        Class::Provider,
        None,
        "Failed to query available provider packages",
        "Could not retrieve the list of available versions for provider hashicorp/aws: no available releases match the given constraints >= 5.60.0, < 7.0.0",
    ),
    (
        Class::Provider,
        None,
        "Inconsistent dependency lock file",
        "The following dependency selections recorded in the lock file are inconsistent with the current configuration:\n  - provider registry.terraform.io/hashicorp/aws: required by this configuration but no version is selected",
    ),
    (
        Class::Network,
        None,
        "creating EC2 VPC: operation error EC2: CreateVpc, https response error StatusCode: 0, RequestID: , request send failed, Post \"https://ec2.eu-west-1.amazonaws.com/\": dial tcp: lookup ec2.eu-west-1.amazonaws.com on 10.0.0.2:53: no such host",
        "",
    ),
    (
        Class::Network,
        Some("InternalFailure"),
        "creating EKS Cluster (demo): operation error EKS: CreateCluster, https response error StatusCode: 500, RequestID: b3b3, api error InternalFailure: An internal error occurred",
        "",
    ),
    (
        Class::Network,
        Some("ServiceUnavailableException"),
        "reading EKS Cluster (demo): operation error EKS: DescribeCluster, https response error StatusCode: 503, RequestID: b4b4, ServiceUnavailableException: Service is unavailable",
        "",
    ),
    (
        Class::Network,
        None,
        "Plugin did not respond",
        "The plugin encountered an error, and failed to respond to the plugin6.(*GRPCProvider).ApplyResourceChange call. The plugin logs may contain more details.",
    ),
    (
        Class::Engine,
        None,
        "Unsupported Terraform Core version",
        "This configuration does not support Terraform version 1.10.0. To proceed, either choose another supported Terraform version or update this version constraint.",
    ),
    (
        Class::Engine,
        None,
        "Failed to save state",
        "Error saving state: write terraform.tfstate: no space left on device",
    ),
    (
        Class::Engine,
        None,
        "Backend initialization required, please run \"terraform init\"",
        "Reason: Initial configuration of the requested backend \"local\"",
    ),
    (
        Class::Unknown,
        None,
        "waiting for EKS Fargate Profile (demo:app) create: unexpected state 'CREATE_FAILED', wanted target 'ACTIVE'. last error: %!s(<nil>)",
        "",
    ),
    (Class::Unknown, None, "something nobody has seen", "at all"),
];

#[test]
fn real_messages_have_the_class_and_the_code_that_a_person_would_give_them() {
    assert!(REAL.len() >= 40);
    let wrong: Vec<_> = REAL
        .iter()
        .filter_map(|(class, code, summary, detail)| {
            let failure = classify(&error(summary, detail));
            let right = failure.class == *class && failure.code.as_deref() == *code;
            (!right)
                .then(|| format!("{:?} {:?}, not {class:?} {code:?}: {summary}", failure.class, failure.code))
        })
        .collect();
    assert_eq!(wrong, Vec::<String>::new());
}

#[test]
fn every_class_has_a_real_message_and_a_name_of_its_own() {
    use std::collections::BTreeSet;
    let classes: BTreeSet<_> = REAL.iter().map(|(class, ..)| *class).collect();
    let names: BTreeSet<_> = classes.iter().map(|class| class.name()).collect();
    assert_eq!(classes.len(), 16);
    assert_eq!(names.len(), 16);
}

#[test]
fn the_same_failure_has_the_same_text_whatever_its_request_id() {
    let with = |id: &str| {
        classify(&error(
            &format!("creating EKS Cluster (demo): operation error EKS: CreateCluster, https response error StatusCode: 400, RequestID: {id}, InvalidParameterException: no"),
            &format!("AccessDenied: x\n\tstatus code: 403, request id: {id}"),
        ))
        .message
    };
    assert_eq!(with("a-1"), with("b-22"));
    assert_eq!(
        with("a-1"),
        "creating EKS Cluster (demo): operation error EKS: CreateCluster, https response error StatusCode: 400, InvalidParameterException: no: AccessDenied: x\n\tstatus code: 403"
    );
}

#[test]
fn a_long_message_is_cut_between_characters() {
    let failure = classify(&error(&"ä".repeat(2000), ""));
    assert!(failure.message.len() <= 1004, "{}", failure.message.len());
    assert!(failure.message.ends_with('…'));
}

#[test]
fn the_address_is_kept() {
    let diagnostic = Diagnostic { address: Some("aws_vpc.this".to_owned()), ..error("x", "y") };
    assert_eq!(classify(&diagnostic).address.as_deref(), Some("aws_vpc.this"));
}

#[test]
fn a_complaint_about_a_place_in_the_configuration_needs_a_person() {
    let range = crate::events::Position { filename: "main.tf".to_owned(), line: 3 };
    let diagnostic = Diagnostic { range: Some(range), ..error("Some new kind of syntax error", "") };
    assert_eq!(classify(&diagnostic).class, Class::UserFix);
    let about_an_object = Diagnostic { address: Some("a.b".to_owned()), ..diagnostic };
    assert_eq!(classify(&about_an_object).class, Class::Unknown);
}

#[test]
fn the_failure_that_needs_a_person_speaks_for_the_run() {
    let throttle = error("api error ThrottlingException: Rate exceeded", "");
    let denied = error("api error AccessDenied: no", "");
    let warning = Diagnostic { severity: "warning".to_owned(), ..error("lifecycle.prevent_destroy", "") };
    let failure = primary(&[warning.clone(), throttle.clone(), denied]).unwrap();
    assert_eq!((failure.class, failure.code.as_deref()), (Class::UserFix, Some("AccessDenied")));
    assert_eq!(primary(&[throttle]).unwrap().class, Class::Throttle);
    assert_eq!(primary(&[warning]), None);
}

#[rstest]
#[case(Class::Wait)]
#[case(Class::Throttle)]
#[case(Class::Network)]
#[case(Class::Propagation)]
fn passing_troubles_never_wait_for_a_person(#[case] class: Class) {
    assert!(!matches!(class.advice(), Advice::AwaitChange | Advice::SlowRetry));
}

#[test]
fn a_person_is_never_asked_in_a_hot_loop() {
    for class in [Class::UserFix, Class::Credentials, Class::Protected, Class::Provider] {
        assert_eq!(class.advice(), Advice::AwaitChange);
    }
}

#[test]
fn plain_text_of_a_dead_child_is_classified_too() {
    assert_eq!(classify_text("write: no space left on device").class, Class::Engine);
}
