//! Files on machines without RDMA devices: file servers as processes of this machine, each by an address of its own, that are
//! killed and started again while files are put.

mod paths;
mod puts;

use super::{Daemon, free_port, presence};
use crate::common::{Scratch, err, out, refused, run, weft};
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::{FileTypeExt, PermissionsExt, symlink};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// File servers, and one node more by which clients ask.
const SERVERS: u32 = 4;

/// A cluster's configurations, one for each node: file servers, and one more. All of 127.0.0.0/8 is this machine.
fn configs(scratch: &Scratch, servers: u32) -> Vec<String> {
    // Tests run at the same time.
    static CLUSTERS: AtomicU32 = AtomicU32::new(1);
    let (port, net) = (free_port(), std::process::id() % 250 + 1);
    let part = CLUSTERS.fetch_add(1, Ordering::Relaxed);
    let config = |rank: u32| {
        let store = scratch.path(&format!("store-{rank}"));
        fs::create_dir_all(&store).expect("a directory");
        let text = format!(
            "[cluster]\nname = \"files\"\nnodes = {}\nmeet = \"127.0.0.1:{port}\"\n[node]\nlisten = \"127.0.0.1:{port}\"\n\
             address = \"127.{net}.{part}.{}\"\nstore = \"{store}\"\npatience_s = 20\n\
             [systems]\nfile_servers = {servers}\nwire = \"tcp\"\n",
            servers + 1,
            rank + 1,
        );
        scratch.file(&format!("{rank}.toml"), text)
    };
    (0..=servers).map(config).collect()
}

/// What a daemon is told whose store is to be made.
const NEW: &[&str] = &["--new-store"];

/// A file server and another node, which serve.
struct Pair {
    scratch: Scratch,
    daemons: Vec<Daemon>,
    config: String,
}

impl Pair {
    fn start(name: &str) -> Pair {
        let scratch = Scratch::new(name);
        let configs = configs(&scratch, 1);
        let start = |(rank, config): (usize, &String)| Daemon::start(&scratch, config, rank as u32, NEW);
        let daemons = configs.iter().enumerate().map(start).collect();
        let pair = Pair { scratch, daemons, config: configs[0].clone() };
        presence(&pair.config, &["present"; 2]);
        patiently(&["fs", "--cluster", &pair.config, "ls"]);
        pair
    }

    fn asks<'a>(&'a self, more: &[&'a str]) -> Vec<&'a str> {
        [&["fs", "--cluster", &self.config, "-q"], more].concat()
    }

    fn ask(&self, more: &[&str]) -> Output {
        run(&self.asks(more))
    }

    fn put(&self, name: &str, content: &[u8]) {
        let from = self.scratch.file("put", content);
        let put = self.ask(&["put", &from, name]);
        assert_eq!(put.status.code(), Some(0), "{}", err(&put));
    }

    fn names(&self) -> String {
        out(&self.ask(&["ls"])).to_string()
    }
}

/// Ctrl-C.
fn interrupt(child: &Child) {
    let sent = Command::new("kill").args(["-TERM", &child.id().to_string()]).status();
    assert!(sent.expect("kill is there").success());
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

/// Two clusters on one machine, both of whose file servers are to have the same address.
#[test]
fn a_server_whose_address_another_one_has_says_so_and_ends() {
    let first = Pair::start("tcp-taken");
    let scratch = Scratch::new("tcp-taken-too");
    let port = |text: &str| {
        let rest = text.split("meet = \"").nth(1).expect("where they meet");
        rest.split('"').next().expect("a name").to_string()
    };
    let there = format!("127.0.0.1:{}", free_port());
    let start = |rank: u32| {
        let text =
            fs::read_to_string(first.scratch.path(&format!("{rank}.toml"))).expect("its configuration");
        let store = scratch.path(&format!("store-{rank}"));
        fs::create_dir_all(&store).expect("a directory");
        let text = text.replace(&port(&text), &there);
        let text = text.replace(&first.scratch.path(&format!("store-{rank}")), &store);
        Daemon::start(&scratch, &scratch.file(&format!("{rank}.toml"), text), rank, NEW)
    };
    let mut second = [0, 1].map(start);
    assert_eq!(second[0].ends(), Some(3));
    let lines = second[0].lines();
    let last = lines.lines().last().unwrap_or_default();
    assert!(last.starts_with("weft: node 0: another program has port 3334 of 127."), "{lines}");
    assert!(last.contains("[node] address"), "{lines}");
}

#[test]
fn a_node_is_asked_at_its_own_door_while_the_coordinator_is_away() {
    let scratch = Scratch::new("tcp-door");
    let door = format!("door = \"127.0.0.1:{}\"", free_port());
    let own = |config: &String, fields: &str| {
        let text = fs::read_to_string(config).expect("its configuration");
        fs::write(config, text.replace("patience_s = 20\n", &format!("patience_s = 20\n{fields}\n")))
            .expect("a file");
    };
    let configs = configs(&scratch, 1);
    own(&configs[0], &format!("coordinate = false\n{door}"));
    own(&configs[1], "coordinate = true");
    let start = |(rank, config): (usize, &String)| Daemon::start(&scratch, config, rank as u32, NEW);
    let mut daemons: Vec<Daemon> = configs.iter().enumerate().map(start).collect();
    presence(&configs[0], &["present"; 2]);
    let from = scratch.file("from", bytes(300_000, 5));
    patiently(&["fs", "--cluster", &configs[0], "-q", "put", &from, "before"]);
    drop(daemons.remove(1));
    let ask = |more: &[&str]| run(&[&["fs", "--cluster", &configs[0], "-q"], more].concat());
    let put = ask(&["put", &from, "amid"]);
    assert_eq!(put.status.code(), Some(0), "{}", err(&put));
    assert_eq!(out(&ask(&["ls"])).lines().count(), 2);
    let to = scratch.path("to");
    assert_eq!(ask(&["get", "before", &to]).status.code(), Some(0));
    assert_eq!(fs::read(to).expect("a file"), bytes(300_000, 5));
    // What is said to be asked of another node is not asked here, and the coordinator is away.
    let other = ask(&["--node", "1", "ls"]);
    assert_eq!(other.status.code(), Some(3));
    assert!(err(&other).contains("the coordinator at 127.0.0.1:"), "{}", err(&other));
}

#[test]
fn files_on_machines_without_devices_outlive_servers_that_are_killed() {
    let scratch = Scratch::new("tcp-files");
    let configs = configs(&scratch, SERVERS);
    let start = |rank: u32, more: &[&str]| Daemon::start(&scratch, &configs[rank as usize], rank, more);
    let mut daemons: Vec<Daemon> = (0..=SERVERS).map(|rank| start(rank, NEW)).collect();
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
            daemons[killed as usize] = start(killed, &[]);
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
fn a_server_that_comes_back_at_another_address_is_reached_by_nodes_that_run() {
    let mut pair = Pair::start("tcp-moved");
    pair.put("f", b"here");
    pair.daemons[0].signal("-KILL");
    assert_eq!(pair.daemons[0].ends(), None, "it was killed");
    let text = fs::read_to_string(&pair.config).expect("its configuration");
    let moved = text.replace(".1\"\nstore", ".9\"\nstore");
    assert_ne!(text, moved);
    let moved = pair.scratch.file("moved.toml", moved);
    pair.daemons[0] = Daemon::start(&pair.scratch, &moved, 0, &[]);
    let get = ["fs", "--cluster", &pair.config, "--node", "1", "-q", "get", "f", "-"];
    assert_eq!(patiently(&get), "here");
}

#[test]
fn who_asks_while_a_node_is_down_may_ask_again_and_exits_with_3() {
    let scratch = Scratch::new("tcp-down");
    let config = configs(&scratch, 1).swap_remove(0);
    let _daemon = Daemon::start(&scratch, &config, 0, NEW);
    presence(&config, &["present", "none"]);
    for (node, code, line) in [
        (&[][..], 3, "no node that is here runs files"),
        (&["--node", "1"], 3, "node 1 is not here"),
        (&["--node", "2"], 2, "there is no rank 2: the cluster's ranks are 0 to 1"),
    ] {
        let output = run(&[&["fs", "--cluster", &config, "ls"], node].concat());
        assert_eq!(output.status.code(), Some(code), "{node:?}: {}", err(&output));
        assert!(err(&output).contains(line), "{node:?}: {}", err(&output));
    }
}

#[test]
fn a_server_whose_disk_is_not_mounted_says_so_and_serves_nothing() {
    let scratch = Scratch::new("tcp-mounted");
    let config = configs(&scratch, 1).swap_remove(0);
    let store = scratch.path("store-0");
    let args = ["daemon", &config, "--rank", "0"];
    let says = [&*store, "is empty", "is its disk mounted?", "`weft daemon --new-store` makes a store there"];
    refused(&args, &says);
    assert_eq!(fs::read_dir(&store).expect("it is there").count(), 0, "nothing was made");
    // It is made once, and is there from then on.
    for more in [NEW, &[]] {
        let mut daemon = Daemon::start(&scratch, &config, 0, more);
        presence(&config, &["present", "none"]);
        daemon.signal("-TERM");
        assert_eq!(daemon.ends(), Some(0), "{}", daemon.lines());
    }
    fs::remove_dir_all(&store).expect("it is ours");
    fs::create_dir(&store).expect("a directory");
    refused(&args, &says);
}

#[test]
fn a_server_of_another_number_of_servers_than_its_files_lie_on_says_what_to_do_and_serves_nothing() {
    let mut pair = Pair::start("tcp-number");
    pair.put("f", b"here");
    pair.daemons[0].signal("-TERM");
    assert_eq!(pair.daemons[0].ends(), Some(0), "{}", pair.daemons[0].lines());
    let text = fs::read_to_string(&pair.config).expect("its configuration");
    let more = pair.scratch.file("more.toml", text.replace("file_servers = 1", "file_servers = 2"));
    let says = ["placed over 1 file servers, and not over 2", "start with 1 again", "weft fs get"];
    refused(&["daemon", &more, "--rank", "0"], &says);
    pair.daemons[0] = Daemon::start(&pair.scratch, &pair.config, 0, &[]);
    assert_eq!(patiently(&pair.asks(&["get", "f", "-"])), "here");
}

#[test]
fn a_node_that_would_tell_others_a_loopback_address_is_refused() {
    let scratch = Scratch::new("tcp-address");
    let text = "[cluster]\nname = \"blue\"\nnodes = 2\nmeet = \"127.0.0.1\"\n[systems]\nfile_servers = 1\nwire = \"tcp\"\n";
    let config = scratch.file("cluster.toml", text);
    refused(&["daemon", &config, "--rank", "1"], &["127.0.0.1", "[node] address"]);
}

#[test]
fn a_file_that_is_gotten_takes_the_place_of_what_it_replaces_and_of_nothing_else() {
    let pair = Pair::start("gets");
    pair.put("f", b"new");
    let get = |to: &str| pair.ask(&["get", "f", to]);
    // A user's own file of a name like that of one that is being filled.
    let (target, own) = (pair.scratch.file("target", "old"), pair.scratch.file("target.part", "mine"));
    fs::set_permissions(&target, fs::Permissions::from_mode(0o600)).expect("it is ours");
    let link = pair.scratch.path("link");
    symlink(&target, &link).expect("a link");
    assert_eq!(get(&link).status.code(), Some(0));
    assert!(fs::symlink_metadata(&link).expect("there").is_symlink(), "the link was replaced");
    let mode = fs::metadata(&target).expect("there").permissions().mode() & 0o777;
    assert_eq!((fs::read(&target).expect("there"), mode), (b"new".to_vec(), 0o600));
    assert_eq!(fs::read(own).expect("there"), b"mine");

    let fifo = pair.scratch.path("fifo");
    assert!(Command::new("mkfifo").arg(&fifo).status().expect("mkfifo is there").success());
    let reader = thread::spawn({
        let fifo = fifo.clone();
        move || fs::read(fifo)
    });
    assert_eq!(get(&fifo).status.code(), Some(0));
    assert_eq!(reader.join().expect("it reads").expect("bytes"), b"new");
    assert!(fs::metadata(&fifo).expect("there").file_type().is_fifo(), "the pipe was replaced");

    // What cannot be written is refused, and nothing is left.
    let (dangling, nowhere) = (pair.scratch.path("dangling"), pair.scratch.path("nowhere/"));
    symlink(pair.scratch.path("none"), &dangling).expect("a link");
    for to in [dangling, nowhere, pair.scratch.path(""), pair.scratch.path("none/f")] {
        let got = get(&to);
        assert_eq!(got.status.code(), Some(2), "{to}: {}", err(&got));
    }
    assert!(pair.scratch.names().iter().all(|name| !name.starts_with('.')), "{:?}", pair.scratch.names());
}

#[test]
fn a_put_or_a_get_that_is_interrupted_leaves_nothing_behind_and_exits_with_3() {
    let pair = Pair::start("interrupted");
    let ends = |mut child: Child| {
        let mut said = String::new();
        child.stderr.take().expect("piped").read_to_string(&mut said).expect("readable");
        assert_eq!((child.wait().expect("ends").code(), said.as_str()), (Some(3), "weft: interrupted\n"));
    };
    // Its input says something, and then nothing more.
    let mut put = weft(&pair.asks(&["put", "-", "f"]));
    let mut put = put.stdin(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("starts");
    let mut input = put.stdin.take().expect("piped");
    input.write_all(&[7; 200_000]).expect("it reads");
    while !pair.names().contains(".f.") {}
    interrupt(&put);
    ends(put);
    assert_eq!(pair.names(), "");

    // Its server hangs in the middle.
    pair.put("f", b"");
    assert_eq!(pair.ask(&["truncate", "f", "300000000"]).status.code(), Some(0));
    let before = pair.scratch.names();
    let get = weft(&pair.asks(&["get", "f", &pair.scratch.path("to")])).stderr(Stdio::piped()).spawn();
    let get = get.expect("starts");
    while pair.scratch.names() == before {}
    pair.daemons[0].signal("-STOP");
    interrupt(&get);
    ends(get);
    pair.daemons[0].signal("-CONT");
    assert_eq!(pair.scratch.names(), before);
}

/// Waits until a program has taken SIGTERM over, and some time more for what it does then.
fn catches(child: &Child) {
    let status = format!("/proc/{}/status", child.id());
    let has = || {
        let text = fs::read_to_string(&status).expect("it runs");
        let caught = text.lines().find_map(|line| line.strip_prefix("SigCgt:")).expect("Linux says it");
        u64::from_str_radix(caught.trim(), 16).expect("bits") & 1 << 14 != 0
    };
    while !has() {
        thread::sleep(Duration::from_millis(5));
    }
    thread::sleep(Duration::from_millis(500));
}

#[test]
fn who_interrupts_a_command_that_waits_is_told_so_and_whether_it_is_known_what_came_of_it() {
    let pair = Pair::start("interrupted-calls");
    pair.put("f", b"x");
    // It is the coordinator, too.
    pair.daemons[0].signal("-STOP");
    let fs = |more: &[&'static str]| pair.asks(more).iter().map(|word| word.to_string()).collect::<Vec<_>>();
    let segment = |more: &[&str]| {
        [&["segment", "--cluster", &pair.config], more].concat().iter().map(|word| word.to_string()).collect()
    };
    let nobody_knows =
        |what: &str| format!("weft: {what}: interrupted, and nobody knows whether it was done\n");
    let interrupted = "weft: interrupted\n".to_string();
    for (args, code, line) in [
        (fs(&["ls"]), 3, interrupted.clone()),
        (fs(&["rm", "f", "g"]), 3, nobody_knows("f")),
        (fs(&["mkdir", "d"]), 3, nobody_knows("d")),
        (segment(&["list"]), 3, interrupted.clone()),
        (segment(&["rm", "load"]), 3, nobody_knows("load")),
        // That is how it ends.
        (segment(&["watch", "load"]), 0, String::new()),
        (segment(&["watch", "load", "--count", "1"]), 3, interrupted.clone()),
        (vec!["status".to_string(), pair.config.clone()], 3, interrupted.clone()),
    ] {
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        let child = weft(&args).stderr(Stdio::piped()).spawn().expect("starts");
        catches(&child);
        interrupt(&child);
        let ended = child.wait_with_output().expect("ends");
        assert_eq!((ended.status.code(), err(&ended)), (Some(code), &*line), "{args:?}");
    }
    pair.daemons[0].signal("-CONT");
}

#[test]
fn a_put_whose_node_goes_is_removed_by_another_node_and_one_that_nobody_can_remove_is_named() {
    let mut pair = Pair::start("put-left");
    let begin = |pair: &Pair, more: &[&str]| {
        let mut put = weft(&pair.asks(&[more, &["put", "-", "f"]].concat()));
        let mut put = put.stdin(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("starts");
        put.stdin.as_mut().expect("piped").write_all(&[7; 200_000]).expect("it reads");
        while !pair.names().contains(".f.") {}
        put
    };
    let ends = |put: Child| {
        // Its input ends now.
        let ended = put.wait_with_output().expect("ends");
        assert_eq!(ended.status.code(), Some(3), "{}", err(&ended));
        err(&ended).to_string()
    };
    let put = begin(&pair, &["--node", "1"]);
    pair.daemons[1].signal("-TERM");
    assert_eq!(pair.daemons[1].ends(), Some(0));
    let told = ends(put);
    assert_eq!((told.contains("may be left"), pair.names().as_str()), (false, ""), "{told}");

    let put = begin(&pair, &[]);
    let part = pair.names().trim().to_string();
    pair.daemons[0].signal("-KILL");
    assert_eq!(pair.daemons[0].ends(), None, "it was killed");
    let told = ends(put);
    assert!(told.contains(&format!("; {part} may be left, to be removed by weft fs rm")), "{told}");

    // Nobody is there any more, so nothing is made.
    let from = pair.scratch.file("from", "new");
    let ended = pair.ask(&["put", &from, "g"]);
    assert_eq!(ended.status.code(), Some(3));
    let told = err(&ended);
    assert!(told.contains("cannot be reached") && !told.contains("may be left"), "{told}");
}

#[test]
fn who_gets_a_file_that_is_replaced_meanwhile_gets_the_new_one_or_may_ask_again() {
    let pair = Pair::start("get-replaced");
    let large = || {
        pair.put("g", b"");
        assert_eq!(pair.ask(&["truncate", "g", "300000000"]).status.code(), Some(0));
        assert_eq!(pair.ask(&["mv", "--force", "g", "f"]).status.code(), Some(0));
    };
    let replace = || {
        let from = pair.scratch.file("put", "new");
        assert_eq!(pair.ask(&["put", "--force", &from, "f"]).status.code(), Some(0));
    };
    let signal = |child: &Child, name: &str| {
        assert!(Command::new("kill").args([name, &child.id().to_string()]).status().expect("kill").success());
    };
    large();
    let (to, before) = (pair.scratch.path("to"), pair.scratch.names());
    let mut get = weft(&pair.asks(&["get", "f", &to])).stdout(Stdio::null()).spawn().expect("starts");
    while pair.scratch.names() == before {}
    signal(&get, "-STOP");
    replace();
    signal(&get, "-CONT");
    assert_eq!(get.wait().expect("ends").code(), Some(0));
    assert_eq!(fs::read(&to).expect("it was written"), b"new");

    // What was written to a pipe stays: it cannot begin anew.
    large();
    let mut get = weft(&pair.asks(&["get", "f", "-"]));
    let mut get = get.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("starts");
    get.stdout.as_mut().expect("piped").read_exact(&mut [1; 9]).expect("it begins");
    replace();
    let ended = get.wait_with_output().expect("ends");
    let told = "weft: 'f' was replaced by another file meanwhile: ask again\n";
    assert_eq!((ended.status.code(), err(&ended)), (Some(3), told));
}

/// The program, whose largest file is of 512 KiB or twice that, as the shell counts.
fn limited(args: &[&str]) -> Command {
    let mut shell = Command::new("sh");
    shell.args(["-c", "ulimit -f 1024; exec \"$0\" \"$@\"", env!("CARGO_BIN_EXE_weft")]).args(args);
    shell.stdin(Stdio::null()).stdout(Stdio::null());
    shell
}

#[test]
fn a_file_that_is_larger_than_a_process_may_write_ends_one_call_and_no_server() {
    let mut pair = Pair::start("limited");
    let bytes = vec![7; 2_000_000];
    pair.put("f", &bytes);
    pair.daemons[0].signal("-TERM");
    assert_eq!(pair.daemons[0].ends(), Some(0));
    let log = pair.scratch.path("limited.log");
    let mut server = limited(&["daemon", &pair.config, "--rank", "0"]);
    let child = server.stderr(fs::File::create(&log).expect("a file")).spawn().expect("there is a shell");
    pair.daemons[0] = Daemon { child, log };
    patiently(&pair.asks(&["ls"]));
    let put = pair.ask(&["put", &pair.scratch.file("put", &bytes), "g"]);
    assert_eq!(put.status.code(), Some(3), "{}", err(&put));
    assert!(err(&put).contains("no file so large"), "{}", err(&put));
    assert_eq!(pair.names(), "f\n", "what it had made is removed");

    let before = pair.scratch.names();
    let get = limited(&pair.asks(&["get", "f", &pair.scratch.path("to")])).output().expect("it starts");
    assert_eq!(get.status.code(), Some(3), "{}", err(&get));
    assert!(err(&get).contains("File too large"), "{}", err(&get));
    assert_eq!(pair.scratch.names(), before);
}

#[test]
fn a_reader_of_a_file_that_has_seen_enough_is_no_error() {
    let pair = Pair::start("enough");
    pair.put("f", b"line\n");
    assert_eq!(pair.ask(&["truncate", "f", "3000000"]).status.code(), Some(0));
    let mut get = weft(&pair.asks(&["get", "f", "-"]));
    let mut get = get.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("starts");
    let (mut line, mut said) = (String::new(), String::new());
    BufReader::new(get.stdout.take().expect("piped")).read_line(&mut line).expect("readable");
    get.stderr.take().expect("piped").read_to_string(&mut said).expect("readable");
    assert_eq!((get.wait().expect("ends").code(), line.as_str(), said.as_str()), (Some(0), "line\n", ""));
}

#[test]
fn a_configuration_of_another_cluster_does_not_reach_this_one() {
    let pair = Pair::start("another");
    let text = fs::read_to_string(&pair.config).expect("there").replace("\"files\"", "\"other\"");
    let other = pair.scratch.file("other.toml", text);
    refused(
        &["fs", "--cluster", &other, "ls"],
        &["this is cluster 'files', and the caller belongs to 'other'"],
    );
    refused(&["status", &other], &["this is cluster 'files'"]);
}
