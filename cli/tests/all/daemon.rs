//! `weft daemon` and `weft status`, as processes on this machine.

mod files;

use crate::common::{Scratch, err, out, refused, root, run, weft};
use serde_json::Value;
use std::fs;
use std::net::{IpAddr, TcpListener};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A port that nobody uses at this moment.
fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").and_then(|socket| socket.local_addr()).expect("there is one").port()
}

/// A daemon, whose lines are in a file. It does not outlive its test.
struct Daemon {
    child: Child,
    log: String,
}

impl Daemon {
    fn start(scratch: &Scratch, config: &str, rank: u32, more: &[&str]) -> Daemon {
        let log = scratch.path(&format!("{rank}.log"));
        let rank = rank.to_string();
        let mut command = weft(&[&["daemon", config, "--rank", &rank], more].concat());
        command.stdout(Stdio::null()).stderr(fs::File::create(&log).expect("a file"));
        Daemon { child: command.spawn().expect("the program starts"), log }
    }

    fn lines(&self) -> String {
        fs::read_to_string(&self.log).expect("its lines")
    }

    fn signal(&self, name: &str) {
        let pid = self.child.id().to_string();
        let sent = Command::new("kill").args([name, &pid]).status().expect("kill is there");
        assert!(sent.success());
    }

    /// Its exit code, within ten seconds.
    fn ends(&mut self) -> Option<i32> {
        let began = Instant::now();
        while began.elapsed() < Duration::from_secs(10) {
            if let Some(status) = self.child.try_wait().expect("it is ours") {
                return status.code();
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        panic!("it does not end:\n{}", self.lines())
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The presence of each node, as `weft status` says it, once it is as expected or for ten seconds.
fn presence(config: &str, expected: &[&str]) {
    let began = Instant::now();
    loop {
        let output = run(&["status", config, "--json"]);
        let status: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
        let members = status["members"].as_array().cloned().unwrap_or_default();
        let kind = |member: &Value| match &member["presence"] {
            Value::String(text) => text.clone(),
            Value::Object(lost) => lost.keys().next().expect("a name").clone(),
            _ => "none".to_string(),
        };
        let seen: Vec<String> = members.iter().map(kind).collect();
        if seen == expected {
            return;
        }
        assert!(began.elapsed() < Duration::from_secs(10), "{seen:?}, not {expected:?}: {}", err(&output));
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// What `docs/operate.md` shows of `weft status`.
fn page_of_status() -> String {
    let page = fs::read_to_string(root().join("docs/operate.md")).expect("the page");
    let shown =
        page.split("$ weft status /etc/weft/cluster.toml\n").nth(1).and_then(|rest| rest.split("```").next());
    shown.expect("an output").to_owned()
}

/// A text without what differs from cluster to cluster: addresses, processes, and how long something has been.
fn shape(text: &str) -> Vec<String> {
    let word = |word: &str| match word {
        "ms" | "s" | "min" | "h" | "d" => "UNIT".to_owned(),
        address if address.parse::<IpAddr>().is_ok() => "ADDRESS".to_owned(),
        other => other.to_owned(),
    };
    let mut lines = Vec::new();
    for line in text.trim_end().lines() {
        let mut words: Vec<String> = Vec::new();
        for next in line.split_whitespace().map(word) {
            match (next.as_str(), words.last_mut()) {
                ("UNIT", Some(number)) => *number = "AGE".to_owned(),
                (_, Some(before)) if before == "process" => words.push("PROCESS".to_owned()),
                _ => words.push(next),
            }
        }
        lines.push(words.join(" "));
    }
    lines
}

fn config(scratch: &Scratch, nodes: u32, more: &str) -> String {
    let port = free_port();
    let text = format!(
        "[cluster]\nname = \"blue\"\nnodes = {nodes}\nmeet = \"127.0.0.1:{port}\"\n{more}[node]\nlisten = \"127.0.0.1:{port}\"\n\
         patience_s = 5\n"
    );
    scratch.file("cluster.toml", text)
}

#[test]
fn daemons_join_leave_are_killed_and_come_again() {
    let scratch = Scratch::new("daemons");
    let config = config(&scratch, 3, "");
    let mut first = Daemon::start(&scratch, &config, 0, &[]);
    let mut second = Daemon::start(&scratch, &config, 1, &["--log", "json"]);
    let mut third = Daemon::start(&scratch, &config, 2, &[]);
    presence(&config, &["present", "present", "present"]);
    let shown = run(&["status", &config]);
    assert!(out(&shown).starts_with("cluster 'blue': 3 of 3 nodes are here\n"), "{}", out(&shown));
    assert!(out(&shown).lines().all(|line| line.chars().count() <= 80));

    second.signal("-TERM");
    assert_eq!(second.ends(), Some(0));
    third.signal("-KILL");
    assert_eq!(third.ends(), None, "it was killed");
    presence(&config, &["present", "left", "lost"]);
    let again = Daemon::start(&scratch, &config, 2, &[]);
    presence(&config, &["present", "left", "present"]);
    assert_eq!(
        shape(out(&run(&["status", &config]))),
        shape(&page_of_status()),
        "docs/operate.md shows another one"
    );

    // The rank is taken, and the holder answers.
    let output = run(&["daemon", &config, "--rank", "2"]);
    assert_eq!(output.status.code(), Some(2), "{}", err(&output));
    assert!(err(&output).contains("rank 2 is taken by 127.0.0.1, which is alive"), "{}", err(&output));

    first.signal("-TERM");
    assert_eq!(first.ends(), Some(0));
    let output = run(&["status", &config]);
    assert_eq!(output.status.code(), Some(3), "nobody listens");
    assert_eq!(err(&output).lines().count(), 1);
    assert!(again.lines().contains("node 2: ready"));
    for line in second.lines().lines() {
        let line: Value = serde_json::from_str(line).expect("an object a line");
        assert!(line["level"].is_string() && line["fields"]["message"].is_string(), "{line}");
    }
    assert!(first.lines().contains("all 3 nodes have met"), "{}", first.lines());
}

#[cfg(target_os = "linux")]
#[test]
fn a_daemon_whose_terminal_is_gone_leaves() {
    let scratch = Scratch::new("daemon_without_terminal");
    let config = config(&scratch, 1, "");
    let log = scratch.path("0.log");
    // Whoever runs this test may have SIGHUP ignored.
    let args = ["--default-signal=HUP", env!("CARGO_BIN_EXE_weft"), "daemon", &config, "--rank", "0"];
    let lines = fs::File::create(&log).expect("a file");
    let child = Command::new("env").args(args).stdout(Stdio::null()).stderr(lines).spawn();
    let mut daemon = Daemon { child: child.expect("there is env"), log };
    presence(&config, &["present"]);
    daemon.signal("-HUP");
    assert_eq!(daemon.ends(), Some(0), "{}", daemon.lines());
}

#[test]
fn what_a_daemon_cannot_use_is_refused_in_one_line() {
    let scratch = Scratch::new("bad_daemons");
    let file = |name: &str, text: &str| scratch.file(name, text);
    let good = "[cluster]\nname = \"blue\"\nnodes = 2\nmeet = \"127.0.0.1:1\"\n";
    refused(&["daemon", &scratch.path("missing.toml"), "--rank", "0"], &["missing.toml"]);
    refused(
        &["daemon", &file("field.toml", &format!("{good}nodez = 1\n")), "--rank", "0"],
        &["field.toml:5: unknown field `nodez`"],
    );
    let plain = file("plain.toml", good);
    refused(&["daemon", &plain], &["--rank"]);
    refused(&["daemon", &plain, "--rank", "2"], &["no rank 2", "0 to 1"]);
    let open = file("open.toml", &format!("{good}[node]\nlisten = \"0.0.0.0:0\"\n"));
    refused(&["daemon", &open, "--rank", "0"], &["no secret", "127.0.0.1"]);
    let secret = file("secret", &"x".repeat(44));
    Command::new("chmod").args(["644", &secret]).status().expect("chmod is there");
    let shared = file("shared.toml", &format!("{good}secret = \"{secret}\"\n"));
    refused(&["daemon", &shared, "--rank", "0"], &["chmod 600"]);
    refused(&["status", &shared], &["chmod 600"]);
    refused(&["status", "--at", "n0:x"], &["n0:x"]);
}

#[test]
fn a_port_in_use_and_a_name_that_does_not_resolve_end_with_code_3() {
    let scratch = Scratch::new("daemons_without_place");
    let held = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = held.local_addr().expect("its address").port();
    let text = format!(
        "[cluster]\nname = \"blue\"\nnodes = 1\nmeet = \"127.0.0.1:{port}\"\n[node]\nlisten = \"127.0.0.1:{port}\"\n"
    );
    let taken = scratch.file("taken.toml", text);
    let output = run(&["daemon", &taken, "--rank", "0", "--log-level", "error"]);
    assert_eq!(output.status.code(), Some(3));
    assert!(err(&output).contains(&format!("cannot listen on 127.0.0.1:{port}: Address already in use")));
    let output = run(&["status", "--at", "no-such-host.invalid"]);
    assert_eq!(output.status.code(), Some(3));
    assert_eq!(err(&output).lines().count(), 1, "{}", err(&output));
    assert!(err(&output).contains("no-such-host.invalid:7471"), "{}", err(&output));
    // The resolver of a machine that has just been booted does not answer yet.
    let text = "[cluster]\nname = \"blue\"\nnodes = 2\nmeet = \"no-such-host.invalid\"\n[systems]\nfile_servers = 1\nwire = \"tcp\"\n";
    let booted = scratch.file("booted.toml", text);
    let output = run(&["daemon", &booted, "--rank", "1"]);
    assert_eq!(output.status.code(), Some(3), "{}", err(&output));
    assert!(err(&output).contains("no-such-host.invalid:7471 is not found"), "{}", err(&output));
}

#[test]
fn the_unit_on_the_page_is_started_again_until_what_passes_has_passed() {
    let page = fs::read_to_string(root().join("docs/operate.md")).expect("the page");
    let unit = page.split("```ini\n").nth(1).and_then(|rest| rest.split("```").next()).expect("a unit");
    let section = |name: &str| {
        let lines = unit.lines().skip_while(|line| *line != name).skip(1);
        lines.take_while(|line| !line.starts_with('[')).collect::<Vec<_>>()
    };
    assert!(section("[Unit]").contains(&"StartLimitIntervalSec=0"), "{unit}");
    for line in ["Restart=on-failure", "RestartSec=5", "RestartPreventExitStatus=2"] {
        assert!(section("[Service]").contains(&line), "{line}: {unit}");
    }
}

#[test]
fn who_asks_for_a_segment_or_a_file_that_cannot_be_had_is_told_why_in_one_line() {
    let scratch = Scratch::new("segments");
    let config = config(&scratch, 1, "");
    let nobody = run(&["segment", "--cluster", &config, "get", "load"]);
    assert_eq!(nobody.status.code(), Some(3));
    assert!(err(&nobody).contains("cannot be reached"), "{}", err(&nobody));
    let _daemon = Daemon::start(&scratch, &config, 0, &[]);
    presence(&config, &["present"]);
    let value = scratch.file("value", "0.25\n");
    let long = scratch.file("long", "x".repeat(200_000));
    for (args, line) in [
        (&["ls"][..], "no node that is here runs files: `weft status` shows what they run"),
        (&["put", &value, "--node", "7"], "there is no rank 7: the cluster's ranks are 0 to 0"),
        (&["get", "value", "--node", "0"], "node 0 does not run files"),
        (&["put", "/no/such/file"], "/no/such/file: No such file or directory"),
        (&["put", "-"], "-: say the new file's name behind it"),
        (&["put", "/", "dir"], "/: is a directory"),
        (&["rm", "a//b"], "is no path: names of 1 to 255 bytes, neither '.' nor '..', with '/' between"),
        (
            &["mkdir", "a", ".."],
            "is no path: names of 1 to 255 bytes, neither '.' nor '..', with '/' between",
        ),
        (&["rmdir", "/"], "is the root, and what is asked for is none"),
        (&["put", &value, "--strip", "0"], "0 is not in 1.."),
    ] {
        let output = run(&[&["fs", "--cluster", &config], args].concat());
        assert_eq!((output.status.code(), out(&output)), (Some(2), ""), "{args:?}: {}", err(&output));
        assert!(err(&output).contains(line), "{args:?}: {}", err(&output));
    }
    for (args, line) in [
        (&["get", "load"][..], "no node that is here runs segments: `weft status` shows what they run"),
        (&["put", "load", &value, "--node", "7"], "there is no rank 7: the cluster's ranks are 0 to 0"),
        (&["rm", "load", "--node", "0"], "node 0 does not run segments"),
        (&["list"], "no node that is here runs segments: `weft status` shows what they run"),
        (&["put", "load", &long], "has more than 102081 bytes, the most that daemons pass on"),
        (&["put", "load", "/no/such/file"], "/no/such/file: No such file or directory"),
        (&["watch", ""], "a name has 1 to 255 bytes, not 0"),
        (&["put", "load", &value, "--size", "1048576"], "1048576 is not in 1..=1048312"),
        (&["put", "load", &value, "--home", "4294967295"], "4294967295 is not in 0..2047"),
        (&["put", "load", &value, "--model", "lax"], "a model is null, read, write, strict, version"),
    ] {
        let output = run(&[&["segment", "--cluster", &config], args].concat());
        assert_eq!((output.status.code(), out(&output)), (Some(2), ""), "{args:?}: {}", err(&output));
        assert!(err(&output).contains(line), "{args:?}: {}", err(&output));
    }
    for (args, line) in [
        (&["run", "load", "true"][..], "no node that is here runs locks: `weft status` shows what they run"),
        (&["run", "--node", "0", "load", "true"], "node 0 does not run locks"),
        (&["list"], "no node that is here runs locks: `weft status` shows what they run"),
        (&["run", "", "true"], "a lock's name has 1 to 255 bytes and no control characters"),
        (&["run", "load"], "required"),
        (&["run", "--try", "--wait", "5", "load", "true"], "cannot be used with"),
        (&["run", "--patience", "0", "load", "true"], "0 is not in 1..=3600"),
    ] {
        let output = run(&[&["lock", "--cluster", &config], args].concat());
        assert_eq!((output.status.code(), out(&output)), (Some(2), ""), "{args:?}: {}", err(&output));
        assert!(err(&output).contains(line), "{args:?}: {}", err(&output));
    }
    // Of a cluster whose file has segments they may run yet: who asks again may be served.
    let text = fs::read_to_string(&config).expect("it is there") + "[systems]\nsegments = true\n";
    let config = scratch.file("with.toml", text);
    for args in [&["list"][..], &["get", "load"]] {
        let output = run(&[&["segment", "--cluster", &config], args].concat());
        assert_eq!((output.status.code(), out(&output)), (Some(3), ""), "{args:?}: {}", err(&output));
        assert!(err(&output).contains("no node that is here runs segments"), "{args:?}: {}", err(&output));
    }
}

#[cfg(not(feature = "hw"))]
#[test]
fn a_daemon_with_systems_needs_a_build_that_drives_devices() {
    let scratch = Scratch::new("systems");
    let config = config(&scratch, 1, "");
    let text = fs::read_to_string(&config).expect("it is there") + "[systems]\nsegments = true\n";
    let config = scratch.file("cluster.toml", text);
    refused(&["daemon", &config, "--rank", "0"], &["--features hw"]);
}
