//! Callers that are no nodes: they can neither stop nor slow a cluster.

use crate::cluster::{Cluster, draw, every_seed, ms, secret};
use crate::network::{Simulated, Stream};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::task::JoinSet;
use weft_control::handshake::call;
use weft_control::net::{Endpoint, Network};

async fn connect(net: &Simulated) -> Stream {
    net.to("meet", weft_control::PORT).await
}

/// Reads until the other end closes; how many bytes came.
async fn until_closed(stream: &mut Stream) -> usize {
    let mut bytes = [0; 256];
    let mut all = 0;
    loop {
        match stream.read(&mut bytes).await {
            Ok(count) if count > 0 => all += count,
            _ => return all,
        }
    }
}

/// A stranger sends bytes and waits until the connection is closed, which it must be within `limit`.
fn sends(bytes: &'static [u8], answered: usize, limit: Duration, line: &str) {
    every_seed(|seed| {
        let mut cluster = Cluster::met(seed, 2);
        cluster.until(ms(1_000 + draw(seed, 1, 0, 700)));
        cluster.program("stranger", move |net| async move {
            let mut stream = connect(&net).await;
            stream.write_all(bytes).await.expect("nobody has closed yet");
            format!("closed after {} bytes", until_closed(&mut stream).await)
        });
        let limit = cluster.sim.elapsed() + limit;
        cluster.until_that(limit, "the stranger is turned away", |c| !c.outcomes("stranger").is_empty());
        assert_eq!(cluster.outcomes("stranger"), [format!("closed after {answered} bytes")]);
        cluster.until(ms(8_000));
        let logged: Vec<String> =
            cluster.since_met().iter().map(|line| line.replace(":49152:", ":")).collect();
        assert_eq!(logged, [line]);
        cluster.finish();
    });
}

#[test]
fn garbage_is_turned_away_at_once() {
    sends(
        b"GET / HTTP/1.1\r\nHost: meet\r\n\r\n",
        0,
        ms(300),
        "WARN turned away 192.168.0.4: it does not speak the control protocol of Weft",
    );
}

#[test]
fn silence_is_turned_away_after_five_seconds() {
    sends(b"", 0, ms(5_300), "WARN turned away 192.168.0.4: it did not say who it is within 5 s");
}

#[test]
fn a_program_that_is_stopped_before_it_has_said_who_it_is_is_no_stranger() {
    every_seed(|seed| {
        let mut cluster = Cluster::met(seed, 2);
        cluster.until(ms(1_000 + draw(seed, 1, 0, 700)));
        cluster.program("client", move |net| async move {
            let mut stream = connect(&net).await;
            stream.write_all(b"WEFT\x00\x04").await.expect("nobody has closed yet");
            // It ends, and its connection with it.
            "stopped".to_string()
        });
        cluster.until(ms(8_000));
        assert_eq!(cluster.outcomes("client"), ["stopped"]);
        assert_eq!(cluster.since_met(), [""; 0]);
        cluster.finish();
    });
}

#[test]
fn another_version_of_the_protocol_is_told_ours() {
    sends(
        b"WEFT\x00\x07",
        6,
        ms(300),
        "WARN turned away 192.168.0.4: it speaks version 7 of the control protocol, and this program 4: install the same one \
         on all machines",
    );
}

#[test]
fn a_stranger_that_announces_four_gigabytes_is_turned_away_for_its_proof() {
    sends(
        &[
            b'W', b'E', b'F', b'T', 0, 4, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255,
            255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255,
            255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255,
            255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255,
        ],
        6 + 32 + 33,
        ms(300),
        "WARN turned away 192.168.0.4: the secrets differ: give both ends the same file, or neither one",
    );
}

#[test]
fn a_caller_that_knows_the_secret_cannot_send_four_gigabytes_either() {
    every_seed(|seed| {
        let mut cluster = Cluster::met(seed, 2);
        cluster.program("insider", move |net| async move {
            let channel = call(connect(&net).await, &secret(), Duration::from_secs(5))
                .await
                .expect("it knows the secret");
            // Past the writer, which would not do it.
            let (_, mut writer) = (channel.reader, channel.writer);
            writer
                .raw(&[255, 255, 255, 255, 0], Duration::from_secs(1))
                .await
                .expect("nobody has closed yet");
            tokio::time::sleep(Duration::from_secs(1)).await;
            "sent".to_string()
        });
        cluster.until(ms(4_000));
        let logged: Vec<String> =
            cluster.since_met().iter().map(|line| line.replace(":49152:", ":")).collect();
        assert_eq!(
            logged,
            [
                "WARN turned away 192.168.0.4: it announced a message of 4294967278 bytes, and at most 262144 are taken"
            ]
        );
        cluster.finish();
    });
}

/// Nodes join while a stranger opens 400 connections and says nothing, at a coordinator that may have so many open.
/// What the coordinator logged.
fn flood(seed: u64, files: usize) -> Vec<String> {
    let mut cluster = Cluster::new(seed, 3);
    cluster.files = files;
    cluster.coordinator("meet", |_| {});
    cluster.program("stranger", |net| async move {
        tokio::time::sleep(Duration::from_millis(50)).await;
        // All that a host may: as many as it can open, several at a time, and none that says who it is.
        let opens = |net: Simulated| async move {
            let mut held = Vec::new();
            for _ in 0..50 {
                held.push(connect(&net).await);
            }
            held
        };
        let opened: JoinSet<Vec<Stream>> = (0..8).map(|_| opens(net.clone())).collect();
        let held = opened.join_all().await;
        tokio::time::sleep(Duration::from_secs(8)).await;
        format!("kept {} connections", held.iter().map(Vec::len).sum::<usize>())
    });
    cluster.node("n0", 0, |_| {});
    cluster.node("n1", 1, |_| {});
    // The last one comes when the stranger's connections are as many as can be.
    cluster.until(ms(1_000));
    cluster.node("n2", 2, |_| {});
    cluster.until(ms(1_500));
    for rank in 0..3 {
        assert_eq!(cluster.members(&format!("n{rank}")).missing(3), Vec::<u32>::new(), "n{rank} waits");
    }
    cluster.until(ms(30_000));
    assert_eq!(cluster.outcomes("stranger"), ["kept 400 connections"]);
    let logged = cluster.log.of("meet");
    cluster.finish();
    logged
}

/// Ten lines in ten seconds, and then the number of the others.
fn ten_lines(logged: &[String], what: &str, first: &str) {
    let lines: Vec<&String> = logged.iter().filter(|line| line.contains(what)).collect();
    assert_eq!(lines.len(), 11, "{lines:#?}");
    assert!(lines[10].ends_with(" more in 10 s"), "{lines:#?}");
    // The oldest one makes room.
    assert_eq!(lines[0].replace(":49152:", ":"), first);
}

const CLOSED: &str = "WARN turned away 192.168.0.2: too many of its connections have not said who they are";

#[test]
fn a_flood_of_connections_does_not_keep_nodes_out() {
    every_seed(|seed| ten_lines(&flood(seed, usize::MAX), "turned away", CLOSED));
}

/// The bound of connections without proof is 326 here, and no more than 20 files can be open.
#[test]
fn a_flood_that_uses_up_all_files_does_not_keep_nodes_out_either_and_fills_no_log() {
    every_seed(|seed| {
        let logged = flood(seed, 20);
        ten_lines(&logged, "turned away", CLOSED);
        let first = "WARN could not take a connection: Too many open files (os error 24)";
        ten_lines(&logged, "could not take", first);
    });
}

#[test]
fn a_coordinator_of_something_else_is_told_apart_from_one_that_is_away() {
    every_seed(|seed| {
        let mut cluster = Cluster::new(seed, 1);
        cluster.program("meet", |net| async move {
            use weft_control::net::Listener;
            let door =
                net.bind(&Endpoint::new("0.0.0.0", weft_control::PORT)).await.expect("the port is free");
            let (mut stream, _) = door.accept().await.expect("a node calls");
            stream.write_all(b"220 mail.example.org ESMTP\r\n").await.expect("nobody has closed yet");
            let _ = until_closed(&mut stream).await;
            "served".to_string()
        });
        cluster.node("n0", 0, |_| {});
        cluster.until(ms(1_000));
        assert_eq!(
            cluster.outcomes("n0"),
            ["the coordinator at meet:7471: it does not speak the control protocol of Weft"]
        );
        cluster.finish();
    });
}
