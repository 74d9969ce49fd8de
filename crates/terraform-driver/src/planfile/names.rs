//! Decodes the enum values and addresses of a saved plan.

use crate::plan::PlanAction;

/// Action value of a create-before-destroy replacement.
pub(super) const CREATE_THEN_DELETE: u64 = 7;

/// Actions of `planproto`. A value of a newer version is unknown, and therefore treated as destructive.
pub(super) fn decode_action(number: u64) -> PlanAction {
    match number {
        0 => PlanAction::NoOp,
        1 => PlanAction::Add,
        2 => PlanAction::Read,
        3 => PlanAction::Change,
        5 => PlanAction::Destroy,
        6 | CREATE_THEN_DELETE => PlanAction::Replace,
        8 | 9 => PlanAction::Forget,
        _ => PlanAction::Unknown,
    }
}

/// Reasons of `planproto`, with the names of `show -json`.
pub(super) fn decode_reason(number: u64) -> Option<String> {
    let name = match number {
        1 => "replace_because_tainted",
        2 => "replace_by_request",
        3 => "replace_because_cannot_update",
        4 => "delete_because_no_resource_config",
        5 => "delete_because_wrong_repetition",
        6 => "delete_because_count_index",
        7 => "delete_because_each_key",
        8 => "delete_because_no_module",
        9 => "replace_by_triggers",
        12 => "delete_because_no_move_target",
        _ => return None,
    };
    Some(name.to_owned())
}

/// Whether a resource is managed, and its type: `module.a["b.c"].data.aws_vpc.x` is a data source of type `aws_vpc`.
pub(super) fn mode_and_type(address: &str) -> (bool, String) {
    let parts = split_address(address);
    let mut rest = parts.as_slice();
    while let ["module", _, tail @ ..] = rest {
        rest = tail;
    }
    match rest {
        ["data", kind, ..] => (false, (*kind).to_owned()),
        [kind, ..] => (true, (*kind).to_owned()),
        [] => (true, String::new()),
    }
}

/// Splits an address at dots outside of an index.
fn split_address(address: &str) -> Vec<&str> {
    let (mut parts, mut start, mut quoted, mut depth, mut escaped) = (Vec::new(), 0, false, 0_u32, false);
    for (at, character) in address.char_indices() {
        match character {
            _ if escaped => escaped = false,
            '\\' if quoted => escaped = true,
            '"' => quoted = !quoted,
            '[' if !quoted => depth += 1,
            ']' if !quoted => depth = depth.saturating_sub(1),
            '.' if !quoted && depth == 0 => {
                parts.push(&address[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&address[start..]);
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_type_is_found_behind_modules_indices_and_data() {
        for (address, managed, kind) in [
            ("aws_vpc.this", true, "aws_vpc"),
            ("aws_subnet.private[\"eu-west-1a\"]", true, "aws_subnet"),
            ("module.a.module.b[0].aws_eks_cluster.this[0]", true, "aws_eks_cluster"),
            ("module.a[\"x.data.y\"].aws_vpc.this", true, "aws_vpc"),
            ("module.a[\"q\\\".aws_vpc.\"].data.aws_region.now", false, "aws_region"),
            ("data.aws_availability_zones.all", false, "aws_availability_zones"),
        ] {
            assert_eq!(mode_and_type(address), (managed, kind.to_owned()), "{address}");
        }
    }
}
