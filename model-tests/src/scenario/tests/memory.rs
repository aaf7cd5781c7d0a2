//! How much memory a run may need, told before it runs.

use super::mistake;

#[test]
fn a_scenario_that_needs_more_memory_than_it_may_take_is_refused_before_it_runs() {
    let refused = |workload: &str, run: &str| {
        let text = format!("[cluster]\nnodes = 32\n[workload]\n{workload}\n[run]\n{run}\n");
        mistake(&text)
    };
    let messages = "kind = \"messages\"\nmessages = 3\nbytes = 65_536";
    let said = refused(messages, "");
    assert!(
        said.contains("[run] memory is not given; the run may need 7939 MiB of at most 4096: "),
        "{said}"
    );
    assert!(
        refused(messages, "memory = 7_938")
            .contains("memory = 7_938: the run may need 7939 MiB of at most 7938: ")
    );
    assert_eq!(refused(messages, "memory = 7_939"), "");
    let segments = "kind = \"ddss\"\nmodel = \"null\"\nrequests = 3\nbytes = 1_048_576\nsegments =";
    assert!(refused(&format!("{segments} 9_999"), "").contains("10000 MiB of its own"));
    assert_eq!(refused(&format!("{segments} 3"), ""), "");
}

/// Messages carry minipages where there are several rails, and what members say is longer the more there are.
#[test]
fn messages_that_rails_and_members_make_longer_count_as_memory() {
    let said = |cluster: &str, workload: &str| {
        let text = format!("[cluster]\n{cluster}\n[workload]\n{workload}\n");
        mistake(&text)
    };
    let wide = "kind = \"dsm\"\nrequests = 3\ngrain = 1_048_576";
    let locks = "kind = \"locks\"\nscheme = \"srsl\"\nrequests = 3";
    for (cluster, more, workload) in
        [("nodes = 16", "rails = 2", wide), ("nodes = 200", "members = {}", locks)]
    {
        assert_eq!(said(cluster, workload), "");
        let long = said(&format!("{cluster}\n{more}"), workload);
        assert!(long.contains("MiB of at most 4096"), "{more}: {long}");
    }
}

/// A connection over one of several rails has twice the receive buffers. Guests connect to servers alone.
#[test]
fn the_memory_of_a_run_is_that_of_the_connections_that_its_machines_have() {
    let said = |cluster: &str, workload: &str| {
        let text = format!("[cluster]\n{cluster}\n[workload]\n{workload}\n[run]\nmemory = 600\n");
        mistake(&text)
    };
    let messages = "kind = \"messages\"\nmessages = 3\nbytes = 65_536";
    assert_eq!(said("nodes = 8", messages), "", "some 449 MiB");
    let two = said("nodes = 8\nrails = 2", messages);
    assert!(two.contains("the run may need 673 MiB of at most 600"), "{two}");
    let files = |guests: bool| {
        format!("kind = \"pario\"\naccess = \"mix\"\nrequests = 3\nservers = 1\nguests = {guests}")
    };
    assert_eq!(said("nodes = 500", &files(true)), "");
    let named = said("nodes = 500", &files(false));
    assert!(named.contains("249500 ends of connections"), "{named}");
}
