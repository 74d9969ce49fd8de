"""The invariants find what they are for. Runs in milliseconds, before the trials: `python3 -m unittest discover tests/chaos`."""

from __future__ import annotations

import unittest

from aws_calls import changes, created_object, operation_of
from cells import FAULTS, LEADERS, VICTIMS, all_cells, in_order, parse_cell, why_excluded
from cloud import Thing
from invariants import Evidence, judge
from proxy import Call
from states import State, States, parse_state

VPC, OTHER, SUBNET = Thing("vpc", "vpc-1"), Thing("vpc", "vpc-2"), Thing("subnet", "subnet-1")


def states(*things: Thing, serial: int = 5, lineage: str = "a", tainted: tuple[Thing, ...] = ()) -> States:
    return States({"w": State(lineage, serial, frozenset(things), frozenset(tainted))})


def good() -> Evidence:
    """A creation of a VPC and a subnet, struck when the VPC was finished."""
    return Evidence("create", set(), states(VPC, serial=3), {VPC, SUBNET}, states(VPC, SUBNET),
                    [Call("CreateVpc", 0, 200), Call("CreateSubnet", 1, 200)], resumed=True)


def verdicts(evidence: Evidence) -> set[str]:
    return {violation.verdict for violation in judge(evidence)}


class Invariants(unittest.TestCase):
    def test_a_good_trial_breaks_nothing(self) -> None:
        self.assertEqual(judge(good()), [])

    def test_an_object_in_no_state_is_lost(self) -> None:
        evidence = good()
        evidence.cloud_after = {VPC, SUBNET, OTHER}
        self.assertEqual(verdicts(evidence), {"lost"})

    def test_an_object_that_only_a_state_has_is_lost(self) -> None:
        evidence = good()
        evidence.states_after = states(VPC, SUBNET, OTHER)
        self.assertEqual(verdicts(evidence), {"lost"})

    def test_a_second_creation_is_a_duplicate_also_if_it_was_removed_again(self) -> None:
        evidence = good()
        evidence.calls.append(Call("CreateVpc", 2, 200))
        self.assertEqual(verdicts(evidence), {"duplicated"})

    def test_a_repetition_that_aws_answers_with_the_same_object_is_no_second_creation(self) -> None:
        evidence = good()
        evidence.calls = [Call("CreateVpc", 0, 200, created="vpc-1"), Call("CreateVpc", 1, 200, created="vpc-1"),
                          Call("CreateSubnet", 2, 200, created="subnet-1")]
        self.assertEqual(judge(evidence), [])
        evidence.calls[1].created = "vpc-2"
        self.assertEqual(verdicts(evidence), {"duplicated"})

    def test_a_second_object_that_is_nobodys_is_lost_and_a_duplicate(self) -> None:
        evidence = good()
        evidence.calls.append(Call("CreateVpc", 2, 200, created="vpc-2"))
        evidence.cloud_after = {VPC, SUBNET, OTHER}
        self.assertEqual(verdicts(evidence), {"lost", "duplicated"})
        evidence.resumed = False
        self.assertEqual(verdicts(evidence), {"lost", "stuck"})

    def test_a_refused_creation_is_none(self) -> None:
        evidence = good()
        evidence.calls.append(Call("CreateVpc", 2, 400))
        self.assertEqual(judge(evidence), [])

    def test_a_finished_object_with_a_new_id_was_replaced(self) -> None:
        evidence = good()
        evidence.cloud_after, evidence.states_after = {OTHER, SUBNET}, states(OTHER, SUBNET)
        self.assertEqual(verdicts(evidence), {"replaced"})

    def test_a_finished_object_that_is_forgotten_is_lost_also_if_a_new_one_took_its_place(self) -> None:
        evidence = good()
        evidence.states_after = states(SUBNET)
        self.assertIn("vpc vpc-1 was in a state and is forgotten", [v.what for v in judge(evidence)])

    def test_a_state_that_goes_back_or_begins_anew_or_is_cut_is_torn(self) -> None:
        for after in (states(VPC, SUBNET, serial=2), states(VPC, SUBNET, lineage="b"), States({}, ["w"])):
            evidence = good()
            evidence.states_after = after
            self.assertIn("torn", verdicts(evidence))

    def test_work_that_does_not_go_on_is_stuck_or_a_manual_step(self) -> None:
        evidence = good()
        evidence.resumed = False
        self.assertEqual(verdicts(evidence), {"stuck"})
        evidence.asked_for_help = True
        self.assertEqual(verdicts(evidence), {"manual"})

    def test_a_lock_removed_by_hand_is_a_manual_step_even_if_the_work_ends_well(self) -> None:
        evidence = good()
        evidence.unlocked_by_hand = True
        self.assertEqual(verdicts(evidence), {"manual"})

    def test_a_plan_with_changes_and_a_taint_are_unsettled(self) -> None:
        evidence = good()
        evidence.changes_planned = "w: planned"
        self.assertEqual(verdicts(evidence), {"unsettled"})
        evidence = good()
        evidence.states_after = states(VPC, SUBNET, tainted=(VPC,))
        self.assertEqual(verdicts(evidence), {"unsettled"})

    def test_a_deletion_has_to_leave_nothing(self) -> None:
        evidence = Evidence("delete", {VPC}, states(VPC), set(), States(), resumed=True)
        self.assertEqual(judge(evidence), [])
        evidence.cloud_after = {VPC}
        self.assertEqual(verdicts(evidence), {"lost"})

    def test_a_change_may_remove_what_it_is_meant_to_remove_and_nothing_else(self) -> None:
        addon = Thing("addon", "coredns")
        evidence = Evidence("shrink", {VPC, addon}, states(VPC, addon), {VPC}, states(VPC, serial=9), resumed=True)
        self.assertEqual(judge(evidence), [])
        evidence.cloud_after, evidence.states_after = set(), states(serial=9)
        self.assertEqual(verdicts(evidence), {"replaced"})


class Names(unittest.TestCase):
    def test_calls_of_all_three_protocols_have_names(self) -> None:
        self.assertEqual(operation_of("POST", "/", None, b"Action=CreateVpc&CidrBlock=10.0.0.0%2F16"), "CreateVpc")
        self.assertEqual(operation_of("POST", "/", "TrentService.CreateKey", b"{}"), "CreateKey")
        self.assertEqual(operation_of("POST", "/clusters/demo/addons", None, b"{}"), "CreateAddon")
        self.assertFalse(changes(operation_of("GET", "/clusters/demo", None, b"")))

    def test_answers_name_what_was_created(self) -> None:
        subnet = b"<subnet><vpcId>vpc-1</vpcId><subnetId>subnet-1</subnetId></subnet>"
        self.assertEqual(created_object("CreateSubnet", subnet), "subnet-1")
        entry = b'{"accessEntry": {"clusterName": "demo", "accessEntryArn": "arn:entry"}}'
        self.assertEqual(created_object("CreateAccessEntry", entry), "arn:entry")
        self.assertEqual(created_object("CreateKey", b'{"KeyMetadata": {"Arn": "arn:key"}}'), "arn:key")
        self.assertEqual(created_object("CreateLogGroup", b""), "")

    def test_an_instance_without_an_id_is_no_object(self) -> None:
        text = """{"lineage": "a", "serial": 1, "resources": [{"mode": "managed", "type": "aws_vpc", "instances": [
            {"attributes": {"id": "vpc-1"}}, {"attributes": {"id": null}}]}]}"""
        self.assertEqual(parse_state(text).things, {VPC})


class Matrix(unittest.TestCase):
    def test_a_cell_survives_its_name(self) -> None:
        cells = all_cells(1)
        self.assertEqual([parse_cell(str(cell)) for cell in cells], cells)
        self.assertEqual(len(set(map(str, cells))), len(cells))

    def test_no_excluded_cell_is_run_and_a_seed_fixes_the_order(self) -> None:
        cells = in_order(3)
        self.assertTrue(all(why_excluded(cell) is None for cell in cells))
        self.assertEqual(cells, in_order(3))
        self.assertEqual(sorted(map(str, cells)), sorted(map(str, all_cells(3))))

    def test_the_short_form_has_every_victim_and_mostly_creations_and_a_longer_one_has_every_operation(self) -> None:
        victims = {*VICTIMS, *LEADERS, *FAULTS}
        for seed in range(1, 6):
            cells = in_order(seed)
            short = cells[: len(victims)]
            self.assertEqual({cell.victim for cell in short}, victims)
            self.assertGreater(sum(cell.operation == "create" for cell in short), len(short) / 2)
            self.assertEqual({cell.operation for cell in cells[:200]}, {cell.operation for cell in cells})


if __name__ == "__main__":
    unittest.main()
