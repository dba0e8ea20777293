# SPDX-License-Identifier: Apache-2.0
"""Tests of the command line that make no sense, or hold not, when the cells are a server's: each with its reason. Everything else in tests/cli
is run both ways. (test_config, test_help, test_tables and test_ledger do not use cells.)"""

TESTS = {
    # what is known only where the cells are
    "test_a_dead_guest_is_said_and_cleaned_up": "kills the guest by its pid, which a server does not tell",
    "test_prune_tells_what_it_removed_and_spares_the_living": "kills the guest by its pid, which a server does not tell",
    "test_the_state_directory_can_be_given": "the state directory is the server's",
    "test_an_unwritable_state_directory": "the state directory is the server's",
    "test_a_state_directory_that_is_a_file": "the state directory is the server's",
    "test_a_corrupt_record_harms_no_other_cell": "damages a record of the state directory by its name; a server's cells are named by ids",
    "test_a_full_disk_is_said": "mounts a small disk for the client alone, where the server does not see it",
    "test_a_hundred_runs_leave_nothing": "looks for processes of its own: the server is one",
    # a server ends what a killed client leaves by its time to live, not at once: see test_remote.py
    "test_a_run_that_is_killed_leaves_no_process": "a session of a killed client ends with its time to live",
    "test_a_client_that_is_killed_leaves_no_process": "a session of a killed client ends with its time to live",
    "test_runs_killed_at_any_moment_are_cleaned_up": "a session of a killed client ends with its time to live",
    "test_creates_killed_at_any_moment_are_cleaned_up": "a create that the server has heard of is made, whatever becomes of the client",
    "test_killed_at_any_moment_it_is_the_old_or_the_new": "what the server has begun goes on beside what is asked next, whatever becomes of the client",
    # JSON is text
    "test_arguments_are_passed_as_bytes": "words of a command travel as JSON: what is no UTF-8 is refused, see test_remote.py",
}


def reason(_module, test):
    return TESTS.get(test)
