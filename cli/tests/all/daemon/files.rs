//! Files on machines without RDMA devices: file servers as processes of this machine, each by an address of its own, that are
//! killed and started again while files are put.

use super::{Daemon, free_port, presence};
use crate::common::{Scratch, err, out, refused, run};
use std::fs;
use std::thread;
use std::time::{Duration, Instant};

/// File servers, and one node more by which clients ask.
const SERVERS: u32 = 4;

/// A cluster's configurations, one for each node. All of 127.0.0.0/8 is this machine.
fn configs(scratch: &Scratch) -> Vec<String> {
    let (port, net) = (free_port(), std::process::id() % 250 + 1);
    let config = |rank: u32| {
        let store = scratch.path(&format!("store-{rank}"));
        fs::create_dir_all(&store).expect("a directory");
        let text = format!(
            "[cluster]\nname = \"files\"\nnodes = {}\nmeet = \"127.0.0.1:{port}\"\n[node]\nlisten = \"127.0.0.1:{port}\"\n\
             address = \"127.{net}.77.{}\"\nstore = \"{store}\"\npatience_s = 20\n\
             [systems]\nfile_servers = {SERVERS}\nwire = \"tcp\"\n",
            SERVERS + 1,
            rank + 1,
        );
        scratch.file(&format!("{rank}.toml"), text)
    };
    (0..=SERVERS).map(config).collect()
}

/// Does something until it succeeds, for half a minute: what it wrote.
fn patiently(args: &[&str]) -> String {
    let began = Instant::now();
    loop {
        let output = run(args);
        if output.status.success() {
            return out(&output).to_string();
        }
        assert!(began.elapsed() < Duration::from_secs(30), "{args:?}: {}", err(&output));
        thread::sleep(Duration::from_millis(50));
    }
}

/// Bytes that are like no others.
fn bytes(len: usize, seed: u8) -> Vec<u8> {
    (0..len).map(|at| (at / 253) as u8 ^ (at as u8).wrapping_mul(7) ^ seed).collect()
}

#[test]
fn files_on_machines_without_devices_outlive_servers_that_are_killed() {
    let scratch = Scratch::new("tcp-files");
    let configs = configs(&scratch);
    let start = |rank: u32| Daemon::start(&scratch, &configs[rank as usize], rank, &[]);
    let mut daemons: Vec<Daemon> = (0..=SERVERS).map(start).collect();
    let cluster = configs[SERVERS as usize].clone();
    let asks = |more: &[&str]| [&["fs", "--cluster", &cluster, "--node", "4", "-q"], more].concat().join(" ");
    let ask =
        |more: &str| patiently(&asks(&more.split(' ').collect::<Vec<_>>()).split(' ').collect::<Vec<_>>());
    presence(&cluster, &["present"; SERVERS as usize + 1]);

    // Over all four servers, and longer than a unit on each.
    let first = bytes(3_000_001, 1);
    let from = scratch.file("first", &first);
    let to = scratch.path("again");
    ask(&format!("put {from} first"));
    ask(&format!("get first {to}"));
    assert!(fs::read(&to).expect("it was written") == first, "other bytes came back");

    // Each is killed once: a data server, then the one that has the directory, at which nodes meet as well.
    for (killed, seed) in [(2_u32, 2_u8), (0, 3)] {
        let second = bytes(2_000_003, seed);
        let from = scratch.file("second", &second);
        thread::scope(|scope| {
            let putting = scope.spawn(|| ask(&format!("put --force {from} second")));
            thread::sleep(Duration::from_millis(30));
            daemons[killed as usize].signal("-KILL");
            assert_eq!(daemons[killed as usize].ends(), None, "it was killed");
            daemons[killed as usize] = start(killed);
            putting.join().expect("it is put in the end");
        });
        ask(&format!("get second {to}"));
        assert!(fs::read(&to).expect("it was written") == second, "other bytes came back");
        ask(&format!("get first {to}"));
        assert!(fs::read(&to).expect("it was written") == first, "other bytes came back");
    }
    // A put whose coordinator died could not remove what it had begun, which never has the file's name.
    let listed = ask("ls");
    let (parts, names): (Vec<&str>, Vec<&str>) =
        listed.lines().partition(|name| name.starts_with(".second."));
    assert_eq!(names, ["first", "second"]);
    parts.iter().for_each(|part| drop(ask(&format!("rm {part}"))));
    ask("rm first");
    assert_eq!(ask("ls"), "second\n");

    for (rank, mut daemon) in daemons.into_iter().enumerate().rev() {
        daemon.signal("-TERM");
        assert_eq!(daemon.ends(), Some(0), "node {rank}:\n{}", daemon.lines());
    }
    for rank in 0..SERVERS {
        let checked = run(&["fsck", &scratch.path(&format!("store-{rank}"))]);
        assert_eq!(checked.status.code(), Some(0), "store {rank}: {}{}", out(&checked), err(&checked));
    }
}

#[test]
fn a_node_that_would_tell_others_a_loopback_address_is_refused() {
    let scratch = Scratch::new("tcp-address");
    let text = "[cluster]\nname = \"blue\"\nnodes = 2\nmeet = \"127.0.0.1\"\n[systems]\nfile_servers = 1\nwire = \"tcp\"\n";
    let config = scratch.file("cluster.toml", text);
    refused(&["daemon", &config, "--rank", "1"], &["127.0.0.1", "[node] address"]);
}
