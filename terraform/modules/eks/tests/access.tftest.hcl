# Access entries, their policies, and the identity provider for service accounts.

mock_provider "aws" {
  source = "./tests/mocks"
}

variables {
  cluster_name    = "demo"
  vpc_id          = "vpc-0a"
  private_subnets = ["subnet-0a", "subnet-0b"]
  access_entries = [
    {
      principal_arn = "arn:aws:iam::111122223333:role/admin"
      policies      = [{ policy_arn = "arn:aws:eks::aws:cluster-access-policy/AmazonEKSClusterAdminPolicy" }]
    },
    {
      principal_arn     = "arn:aws:iam::111122223333:user/dev"
      kubernetes_groups = ["developers"]
      policies = [
        { policy_arn = "arn:aws:eks::aws:cluster-access-policy/AmazonEKSViewPolicy" },
        { policy_arn = "arn:aws:eks::aws:cluster-access-policy/AmazonEKSEditPolicy", scope_type = "namespace", namespaces = ["a", "b"] },
      ]
    },
    { principal_arn = "arn:aws:iam::111122223333:role/node", type = "EC2_LINUX" },
  ]
}

run "every_principal_has_one_entry" {
  command = plan

  assert {
    condition     = length(aws_eks_access_entry.this) == 3 && aws_eks_access_entry.this["arn:aws:iam::111122223333:role/admin"].type == "STANDARD" && aws_eks_access_entry.this["arn:aws:iam::111122223333:role/node"].type == "EC2_LINUX"
    error_message = "entries: ${join(" ", keys(aws_eks_access_entry.this))}"
  }

  assert {
    condition     = aws_eks_access_entry.this["arn:aws:iam::111122223333:user/dev"].kubernetes_groups == toset(["developers"])
    error_message = "groups of the developer"
  }
}

run "policies_are_bound_to_cluster_or_namespaces" {
  command = plan

  assert {
    condition     = length(aws_eks_access_policy_association.this) == 3
    error_message = "associations: ${join(", ", keys(aws_eks_access_policy_association.this))}"
  }

  assert {
    condition     = one(aws_eks_access_policy_association.this["arn:aws:iam::111122223333:role/admin arn:aws:eks::aws:cluster-access-policy/AmazonEKSClusterAdminPolicy"].access_scope).type == "cluster"
    error_message = "the administrator's policy holds for the cluster"
  }

  assert {
    condition = (
      one(aws_eks_access_policy_association.this["arn:aws:iam::111122223333:user/dev arn:aws:eks::aws:cluster-access-policy/AmazonEKSEditPolicy"].access_scope).type == "namespace"
      && one(aws_eks_access_policy_association.this["arn:aws:iam::111122223333:user/dev arn:aws:eks::aws:cluster-access-policy/AmazonEKSEditPolicy"].access_scope).namespaces == toset(["a", "b"])
    )
    error_message = "the developer may edit two namespaces"
  }
}

run "the_creator_need_not_be_an_administrator" {
  command = plan

  variables {
    bootstrap_creator_admin = false
  }

  assert {
    condition     = !one(aws_eks_cluster.this.access_config).bootstrap_cluster_creator_admin_permissions
    error_message = "bootstrap_creator_admin"
  }
}

run "service_accounts_have_an_identity_provider" {
  assert {
    condition     = aws_iam_openid_connect_provider.cluster.url == "https://oidc.example/id/DEMO" && aws_iam_openid_connect_provider.cluster.client_id_list == toset(["sts.amazonaws.com"])
    error_message = "issuer ${aws_iam_openid_connect_provider.cluster.url}"
  }
}

run "a_change_of_the_creators_rights_does_not_replace_the_cluster" {
  variables {
    bootstrap_creator_admin = false
  }

  assert {
    condition     = one(aws_eks_cluster.this.access_config).bootstrap_cluster_creator_admin_permissions
    error_message = "read at creation only"
  }
}
