//! Scenario files: what is understood, and how each kind of mistake is told.

mod memory;

use super::*;
use crate::systems::locks::Locks;
use crate::systems::locks::workload::{Keys, LockWork};
use weft_verbs::Nanos;

fn parse_named(text: &str) -> Result<Scenario, ScenarioError> {
    Scenario::parse_with("s.toml", text, &[], crate::systems::KINDS)
}

/// What is wrong with a scenario; nothing of a good one.
fn mistake(text: &str) -> String {
    crate::parse(text).err().map(|error| error.to_string()).unwrap_or_default()
}

fn work(scenario: &Scenario) -> &LockWork {
    scenario.workload.get::<Locks>().expect("a workload of locks")
}

const SMALL: &str = r#"
[cluster]
nodes = 3

[workload]
kind = "locks"
scheme = "ncosed"
requests = 5
"#;

const FULL: &str = r#"
title = "everything at once"

[cluster]
nodes = 16
profile = "ncosed-2007"
wait = "notify"
topology = "switch"

[workload]
kind = "locks"
scheme = "srsl"
clients = 4
locks = 64
keys = { zipf = 0.99 }
shared = 0.5
hold = { min = "1us", max = "20us" }
think = "1.5ms"
duration = "20ms"
deadline = "10ms"
hurried = 0.25
tries = 0.125
downgrades = 0.75

[run]
limit = "1s"
settle = "3s"
seed = 7

[[faults]]
kind = "cut"
rate = "200/s"
between = "random"
way = "from"
lasts = { min = "1ms", max = "80ms" }

[[faults]]
kind = "flap"
at = "3ms"
node = 2
down = "20us"
up = "1ms"
times = 5

[[faults]]
kind = "loss"
at = "0ms"
between = [0, 3]
share = 0.01

[[faults]]
kind = "delay"
at = "1ms"
extra = "5us"
jitter = "2us"
node = "random"

[[faults]]
kind = "lose-completion"
rate = "1/ms"
lasts = "20ms"

[[faults]]
kind = "slow-node"
at = "1ms"
percent = 300
"#;

#[test]
fn what_is_left_out_has_its_documented_default() {
    let scenario = crate::parse(SMALL).unwrap();
    assert_eq!(scenario.cluster.profile, "present-day");
    assert_eq!(scenario.cluster.wait, WaitStyle::Poll);
    assert_eq!(work(&scenario).clients, 1);
    assert_eq!(work(&scenario).locks, 1);
    assert_eq!(work(&scenario).hold, Spread::fixed(Nanos::ZERO));
    assert_eq!(work(&scenario).shared, Share::NONE);
    assert_eq!(scenario.run, Run::default());
    assert!(scenario.faults.is_empty());
}

#[test]
fn a_scenario_survives_being_written_and_read_back() {
    for text in [SMALL, FULL] {
        let scenario = crate::parse(text).unwrap();
        let written = toml::to_string(&scenario).unwrap();
        assert_eq!(crate::parse(&written).unwrap(), scenario, "{written}");
    }
}

#[test]
fn every_field_is_understood() {
    let scenario = crate::parse(FULL).unwrap();
    assert_eq!(work(&scenario).keys, Keys::Zipf(0.99));
    assert_eq!(work(&scenario).think, Spread::fixed(Nanos(1_500_000)));
    assert_eq!(scenario.faults.len(), 6);
    assert_eq!(scenario.faults[0].rate.unwrap().mean_interval(), Nanos::from_millis(5));
    assert_eq!(scenario.faults[1].node, Some(Pick::Node(2)));
    assert_eq!(scenario.faults[2].between, Some(Pair::Nodes([0, 3])));
    assert_eq!(scenario.faults[2].share.unwrap().ppm(), 10_000);
}

/// `FULL` with one text in it replaced by another, and the line that must come of it.
const MISTAKES: &[(&str, &str, &str)] = &[
    ("nodes = 16", "nodes = 0", "s.toml:5: [cluster] nodes = 0: from 1 to 1024; give the number of machines"),
    (
        "nodes = 16",
        "nodes = 5000",
        "s.toml:5: [cluster] nodes = 5000: from 1 to 1024; give the number of machines",
    ),
    (
        "nodes = 16",
        "nodes = -1",
        "s.toml:5: [cluster] nodes = -1: from 1 to 1024; give the number of machines",
    ),
    (
        "nodes = 16",
        "nodes = 1000000000000000000000",
        "s.toml:5: [cluster] nodes = 1000000000000000000000: from 1 to 1024; give the number of machines",
    ),
    ("nodes = 16", "nodes = 1e9", "s.toml:5: [cluster] nodes = 1e9: expected a whole number, 0 or more"),
    (
        "nodes = 16",
        "nodes = \"sixteen\"",
        "s.toml:5: [cluster] nodes = \"sixteen\": expected a whole number, 0 or more",
    ),
    (
        "nodes = 16",
        "nodes = 16\nvisibility = \"2ms\"",
        "s.toml:6: [cluster] visibility = \"2ms\": at most 1ms; some microseconds are usual",
    ),
    (
        "nodes = 16",
        "",
        "s.toml:4: [cluster] nodes is not given; write how many machines there are, for example nodes = 16",
    ),
    ("nodes = 16", "node = 16", "s.toml:5: [cluster] node: no such field; did you mean nodes?"),
    (
        "nodes = 16",
        "nodes = 16\ncolour = 3",
        "s.toml:6: [cluster] colour: no such field; there are: nodes, profile, wait, topology, connect, rails, jitter, keys, visibility, device, device_port, gid, members",
    ),
    ("[workload]", "[workloads]", "s.toml:10: [workloads]: no such field; did you mean workload?"),
    ("nodes = 16", "nodes = ", "s.toml:5: not TOML: string values must be quoted, expected literal string"),
    (
        "\"ncosed-2007\"",
        "\"ncosed\"",
        "s.toml:6: [cluster] profile = \"ncosed\": no such profile; there are \"ddss-2006\", \"dsm-2005\", \"elan4-2005\", \"ncosed-2007\", \"present-day\" and \"sdp-2011\", and files that end in .toml",
    ),
    (
        "\"notify\"",
        "\"sleep\"",
        "s.toml:7: [cluster] wait = \"sleep\": no such choice; there are \"poll\", \"notify\"",
    ),
    (
        "nodes = 16",
        "nodes = 16\nconnect = \"tcp\"",
        "s.toml:6: [cluster] connect = \"tcp\": no such choice; there are \"cm\", \"oob\"",
    ),
    (
        "\"srsl\"",
        "\"paxos\"",
        "s.toml:12: [workload] scheme = \"paxos\": no such lock scheme; there are \"srsl\", \"dqnl\", \"ncosed\"",
    ),
    (
        "shared = 0.5",
        "shared = 1.5",
        "s.toml:16: [workload] shared = 1.5: a share is from 0 to 1, for example 0.25 for a quarter",
    ),
    (
        "shared = 0.5",
        "shared = \"half\"",
        "s.toml:16: [workload] shared = \"half\": expected a share from 0 to 1, for example 0.25 for a quarter",
    ),
    (
        "think = \"1.5ms\"",
        "think = \"1.5 hours\"",
        "s.toml:18: [workload] think = \"1.5 hours\": a time is a number and one of ns, us, ms, s, min, for \
         example \"250us\"",
    ),
    (
        "think = \"1.5ms\"",
        "think = 5",
        "s.toml:18: [workload] think = 5: expected a time (\"5us\") or a range ({ min = \"1us\", max = \"20us\" })",
    ),
    (
        "{ min = \"1us\", max = \"20us\" }",
        "{ min = \"30us\", max = \"20us\" }",
        "s.toml:17: [workload] hold = { min = \"30us\", max = \"20us\" }: min (30us) is above max (20us); swap \
         them",
    ),
    (
        "duration = \"20ms\"",
        "",
        "s.toml:10: [workload] requests is not given; give requests (per client) or duration (in virtual time)",
    ),
    (
        "duration = \"20ms\"",
        "duration = \"20ms\"\nrequests = 3",
        "s.toml:19: [workload] duration = \"20ms\": requests is given too; give one of the two",
    ),
    (
        "{ zipf = 0.99 }",
        "{ zipf = 9 }",
        "s.toml:15: [workload] keys = { zipf = 9 }: a Zipf skew is from 0 (uniform) to 5; 0.99 is usual",
    ),
    (
        "{ zipf = 0.99 }",
        "\"zipf\"",
        "s.toml:15: [workload] keys = \"zipf\": this choice has a value: write { NAME = VALUE }",
    ),
    (
        "{ zipf = 0.99 }",
        "3",
        "s.toml:15: [workload] keys = 3: expected a choice: its name in quotes, or { NAME = VALUE }",
    ),
    (
        "{ zipf = 0.99 }",
        "{ }",
        "s.toml:15: [workload] keys = { }: expected one choice with its value: { NAME = VALUE }",
    ),
    (
        "think = \"1.5ms\"",
        "think = { min = \"0us\" }",
        "s.toml:18: [workload] think max is not given; a range has both min and max",
    ),
    (
        "nodes = 16",
        "nodes = 16\nmembers = { lease = \"1us\" }",
        "s.toml:6: [cluster] members = { lease = \"1us\" }: lease and patience are from 1ms to a day",
    ),
    (
        "nodes = 16",
        "nodes = 16\nmembers = { lease = \"5ms\", drift = \"5ms\" }",
        "s.toml:6: [cluster] members = { lease = \"5ms\", drift = \"5ms\" }: drift is shorter than lease",
    ),
    (
        "nodes = 16",
        "nodes = 16\nmembers = { lease = \"3s\" }",
        "s.toml:28: [run] settle = \"3s\": more than 4101ms: so long members go on waiting for one that has died",
    ),
    (
        "[workload]",
        "[transport]\nack_timeout = 16\n[workload]",
        "s.toml:29: [run] settle = \"3s\": more than 8725ms: a request may wait for so long while an adapter asks in vain and connects anew, \
         8725ms (less with ack_timeout or retries lower in [transport]), and it waits for another machine, 1ms (less with a shorter hold or keepalive)",
    ),
    (
        "kind = \"cut\"",
        "kind = \"snip\"",
        "s.toml:31: [[faults]] 1 kind = \"snip\": no such choice; there are \
         \"cut\", \"flap\", \"loss\", \"delay\", \"duplicate\", \"corrupt\", \"port-down\", \"lose-completion\", \
         \"slow-node\", \"restart\", \"crash\", \"disk-full\", \"disk-error\", \"no-memory\"",
    ),
    (
        "rate = \"200/s\"",
        "rate = \"200\"",
        "s.toml:32: [[faults]] 1 rate = \"200\": a rate is a whole number per ns, us, ms, s, min, for example \
         \"200/s\"",
    ),
    (
        "rate = \"200/s\"",
        "",
        "s.toml:30: [[faults]] 1 at is not given; say when: at = \"3ms\" for once, rate = \"200/s\" for often",
    ),
    (
        "between = [0, 3]",
        "between = [0, 16]",
        "s.toml:48: [[faults]] 3 between = [0, 16]: there is no machine 16; they are numbered 0 to 15",
    ),
    (
        "between = [0, 3]",
        "between = [3, 3]",
        "s.toml:48: [[faults]] 3 between = [3, 3]: a link joins two different machines",
    ),
    (
        "between = [0, 3]",
        "between = [0, 1, 2]",
        "s.toml:48: [[faults]] 3 between = [0, 1, 2]: expected two machines' numbers ([0, 3]) or \"random\"",
    ),
    (
        "node = 2",
        "node = 99",
        "s.toml:40: [[faults]] 2 node = 99: there is no machine 99; they are numbered 0 to 15",
    ),
    (
        "down = \"20us\"",
        "down = { min = \"0us\", max = \"3ns\" }",
        "s.toml:41: [[faults]] 2 down = { min = \"0us\", max = \"3ns\" }: longer than nothing and at most a day of virtual time",
    ),
    (
        "times = 5",
        "",
        "s.toml:37: [[faults]] 2 times is not given; this kind needs it; it takes at or rate, down, up, times, \
         node, rail, between",
    ),
    (
        "times = 5",
        "times = 5\nshare = 0.5",
        "s.toml:44: [[faults]] 2 share = 0.5: means nothing for this kind, which takes at or rate, down, up, \
         times, node, rail, between",
    ),
    (
        "lasts = \"20ms\"\n",
        "",
        "s.toml:58: [[faults]] 5 lasts is not given; this kind needs it; it takes at or \
         rate, lasts, node",
    ),
    (
        "percent = 300",
        "percent = 50",
        "s.toml:66: [[faults]] 6 percent = 50: from 101 to 100000; 300 is three times slower",
    ),
    (
        "[workload]",
        "[transport]\nretries = 8\n[workload]",
        "s.toml:11: [transport] retries = 8: from 0 to 7; 7 is usual",
    ),
    (
        "[workload]",
        "[transport]\nsend_depth = 16_384\n[workload]",
        "s.toml:11: [transport] send_depth = 16_384: from 4 to 16383",
    ),
    (
        "[workload]",
        "[transport]\nack_timeout = 0\n[workload]",
        "s.toml:11: [transport] ack_timeout = 0: from 1 to 31: 4.096 us times two to this; 14 is usual",
    ),
    (
        "[workload]",
        "[transport]\nack_timeout = 300\n[workload]",
        "s.toml:11: [transport] ack_timeout = 300: from 1 to 31: 4.096 us times two to this; 14 is usual",
    ),
    ("seed = 7", "seed = -7", "s.toml:28: [run] seed = -7: too small: it cannot be below 0"),
    (
        "limit = \"1s\"",
        "limit = \"1.2.3s\"",
        "s.toml:26: [run] limit = \"1.2.3s\": a time is a number and one of ns, us, ms, s, min, for example \"250us\"",
    ),
    (
        "limit = \"1s\"",
        "limit = \"0s\"",
        "s.toml:26: [run] limit = \"0s\": longer than nothing and at most a day of virtual time",
    ),
];

#[test]
fn every_mistake_is_told_in_one_clear_line() {
    let mut wrong = Vec::new();
    for (right, mistake, line) in MISTAKES {
        assert!(FULL.contains(right), "{right}");
        let said = match parse_named(&FULL.replacen(right, mistake, 1)) {
            Ok(_) => format!("{mistake:?} was accepted"),
            Err(error) => error.to_string(),
        };
        if said != *line {
            wrong.push(format!("want {line}\n got {said}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_section_that_is_missing_is_told() {
    let error = parse_named("[cluster]\nnodes = 3\n").unwrap_err().to_string();
    assert_eq!(
        error,
        "s.toml:1: workload is not given; add a section [workload] with the kind of system, for example kind = \"locks\""
    );
}

#[test]
fn a_file_that_cannot_be_read_or_is_no_text_is_told() {
    let error = crate::load("no/such/file.toml").unwrap_err().to_string();
    assert!(error.starts_with("no/such/file.toml: cannot be read: ") && !error.contains('\n'), "{error}");
    let path = std::env::temp_dir().join(format!("weft-not-utf8-{}.toml", std::process::id()));
    std::fs::write(&path, b"title = \"x\"\n# \xff\n").unwrap();
    let error = crate::load(&path).unwrap_err();
    std::fs::remove_file(&path).unwrap();
    assert!(matches!(error, ScenarioError::NotUtf8 { line: 2, .. }), "{error}");
}

#[test]
fn times_are_exact_decimals_with_a_unit() {
    for (text, nanos) in [("7ns", 7), ("250us", 250_000), ("1.5ms", 1_500_000), ("2 s", 2_000_000_000)] {
        assert_eq!(text.parse(), Ok(Span(Nanos(nanos))), "{text}");
    }
    for text in ["", "5", "us", "1.5ns", "-1us", "1e3us", "99999999999s", "1..2s", "0.0001us", "5 fortnights"]
    {
        assert!(text.parse::<Span>().is_err(), "{text}");
    }
}

#[test]
fn times_are_written_in_the_largest_unit_that_is_exact() {
    for (nanos, text) in [(0, "0ns"), (7, "7ns"), (1_500_000, "1500us"), (2_000_000_000, "2s")] {
        assert_eq!(Span(Nanos(nanos)).to_string(), text);
    }
}

fn overridden(fields: &[&str]) -> Result<Scenario, String> {
    let fields: Vec<Override> = fields.iter().map(|field| field.parse()).collect::<Result<_, _>>()?;
    Scenario::parse_with("s.toml", FULL, &fields, crate::systems::KINDS).map_err(|error| error.to_string())
}

#[test]
fn a_command_line_gives_any_field_another_value() {
    let scenario =
        overridden(&["workload.scheme=dqnl", "cluster.nodes=20", "faults.2.node=18", "run.seed=9"]).unwrap();
    assert_eq!(work(&scenario).scheme, weft_protocols::locks::Scheme::Dqnl);
    assert_eq!((scenario.cluster.nodes, scenario.run.seed), (20, 9));
    assert_eq!(scenario.faults[1].node, Some(Pick::Node(18)));
    let twice = overridden(&["cluster.nodes=20", "cluster.nodes=17"]).unwrap();
    assert_eq!(twice.cluster.nodes, 17, "the last one counts");
    let new = overridden(&["transport.retries=3"]).unwrap();
    assert_eq!(new.transport.retries, Some(3), "a section that the file does not have");
}

#[test]
fn a_mistake_on_a_command_line_is_told_as_that() {
    for (field, line) in [
        (
            "cluster.nodes=0",
            "--set cluster.nodes=0: [cluster] nodes = 0: from 1 to 1024; give the number of machines",
        ),
        (
            "workload.scheme=paxos",
            "--set workload.scheme=paxos: [workload] scheme = paxos: no such lock scheme; there are \"srsl\", \
             \"dqnl\", \"ncosed\"",
        ),
        (
            "workload.schema=srsl",
            "--set workload.schema=srsl: [workload] schema: no such field; did you mean scheme?",
        ),
        ("faults.9.node=1", "--set faults.9.node=1: there are 6 in the list"),
        ("faults.node=1", "--set faults.node=1: say which one of the list, counted from 1"),
        (
            "workload.kind=files",
            "--set workload.kind=files: [workload] kind = files: no such choice; there are \"locks\"",
        ),
    ] {
        let said = overridden(&[field]).expect_err(field);
        assert!(said.starts_with(line), "want {line}\n got {said}");
    }
}

#[test]
fn every_scenario_of_the_swarm_is_valid_and_survives_a_file() {
    for seed in 0..2_000 {
        let scenario = swarm::seeded::<Locks>(seed, None, "ncosed");
        let among =
            swarm::seeded::<Locks>(seed, Some(16), "ncosed").among_members(seed).expect("it survives");
        for scenario in [scenario, among] {
            let text = toml::to_string(&scenario).unwrap();
            let read = crate::parse(&text).unwrap_or_else(|error| panic!("seed {seed}: {error}\n{text}"));
            assert_eq!(read, scenario);
        }
    }
}

#[test]
fn in_a_part_of_the_swarm_processors_see_memory_late() {
    let drawn = (0..400).map(|seed| swarm::seeded::<Locks>(seed, Some(3), "srsl").cluster.visibility);
    let late = drawn.filter(|visibility| *visibility > Span::default()).count();
    assert!((50..150).contains(&late), "{late} of 400");
}

#[test]
fn the_swarm_has_every_kind_of_fault_and_runs_without_any() {
    let all: Vec<Scenario> = (0..200).map(|seed| swarm::seeded::<Locks>(seed, None, "srsl")).collect();
    use FaultKind::{Crash, DiskError, DiskFull, NoMemory, Restart};
    let elsewhere = |kind: &FaultKind| matches!(kind, Restart | Crash | DiskFull | DiskError | NoMemory);
    for kind in FAULT_KINDS.into_iter().filter(|kind| !elsewhere(kind)) {
        assert!(all.iter().any(|scenario| scenario.faults.iter().any(|fault| fault.kind == kind)), "{kind}");
    }
    assert!(all.iter().any(|scenario| scenario.faults.is_empty()));
}

#[test]
fn a_link_that_fails_for_so_long_that_users_are_told_of_it_is_refused() {
    let said = |cluster: &str, fault: &str, limit: &str| {
        let text = format!(
            "[cluster]\nnodes = 2\n{cluster}\n[workload]\nkind = \"sdp\"\nrequests = 3\n[run]\nlimit = \"{limit}\"\n\
             [[faults]]\nat = \"1s\"\n{fault}\n"
        );
        mistake(&text)
    };
    let cut = "kind = \"cut\"\nlasts";
    let long = said("", &format!("{cut} = \"40s\""), "60s");
    assert!(long.contains("lasts = \"40s\": the link is down for up to 40.000 s"), "{long}");
    assert_eq!(said("", &format!("{cut} = \"19s\""), "60s"), "");
    assert!(
        said("", "kind = \"cut\"", "21s").contains("lasts is not given; the link is down for up to 20.000 s")
    );
    assert_eq!(said("", "kind = \"cut\"", "20s"), "", "until faults stop");
    assert!(said("", "kind = \"flap\"\ndown = \"40s\"\nup = \"1s\"\ntimes = 1", "60s").contains("down = "));
    let two = "rails = 2";
    assert_eq!(said(two, &format!("{cut} = \"40s\"\nrail = 1"), "60s"), "", "there is another rail");
    assert!(said(two, &format!("{cut} = \"40s\""), "60s").contains("40.000 s"));
}

#[test]
fn a_scenario_whose_requests_may_wait_for_longer_than_they_may_take_is_refused() {
    let said = |transport: &str, work: &str, fault: &str| {
        let text = format!(
            "[cluster]\nnodes = 2\n[transport]\n{transport}\n[workload]\nkind = \"locks\"\nscheme = \"ncosed\"\nrequests = 3\n{work}\n{fault}\n"
        );
        mistake(&text)
    };
    let cut = "[[faults]]\nkind = \"cut\"\nat = \"1ms\"";
    let long = said("ack_timeout = 21\nretries = 2", "", cut);
    // Four times 8.59 s, three times; and eight times 16.8 ms.
    assert!(
        long.contains("settle is not given; more than 103214ms: ") && long.contains("[transport]"),
        "{long}"
    );
    assert_eq!(said("ack_timeout = 21\nretries = 2", "", ""), "", "nothing is lost");
    assert_eq!(
        said("ack_timeout = 21", "", "[[faults]]\nkind = \"slow-node\"\nat = \"1ms\"\npercent = 200"),
        ""
    );
    assert_eq!(said("ack_timeout = 16\nretries = 7", "", cut), "", "8.7 s of 10");
    assert!(said("ack_timeout = 17\nretries = 7", "", cut).contains("more than 17315ms"));
    let holds = said("", "hold = { min = \"1us\", max = \"10s\" }", "");
    assert!(holds.contains("more than 10s: ") && holds.contains("shorter hold"), "{holds}");
    assert_eq!(said("", "hold = \"9999ms\"", ""), "");
}
