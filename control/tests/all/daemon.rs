//! Daemons under turmoil: the first one is the coordinator as well.

use crate::cluster::{Cluster, Kept, draw, every_seed, ms};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use weft_control::daemon::config::{Cluster as Nodes, Config};
use weft_control::daemon::systems::{self, Seat};
use weft_control::message::{Report, View, WAITS};

fn config() -> Config {
    let text = "[cluster]\nname = \"blue\"\nnodes = 3\nmeet = \"meet\"\n[node]\nlisten = \"0.0.0.0\"\nmetrics = \"0.0.0.0:9471\"\n";
    Config::parse(text).expect("it is one")
}

/// Three daemons that have met.
fn met(seed: u64) -> Cluster<'static> {
    let mut cluster = Cluster::new(seed, 3);
    for (rank, host) in ["meet", "n1", "n2"].iter().enumerate() {
        cluster.daemon(host, rank as u32, config());
    }
    cluster.until_that(ms(1_000), "all have met", |c| {
        c.log.of("meet").contains(&"INFO all 3 nodes have met".to_string())
    });
    cluster.until(ms(1_000));
    cluster
}

/// What a program that reads the metrics of a host is answered to a request.
fn read(cluster: &mut Cluster<'_>, host: &'static str, request: &'static [u8]) -> String {
    let told: Kept<String> = Kept::default();
    let (kept, name) = (told.clone(), format!("reader-{}", cluster.sim.elapsed().as_millis()));
    cluster.program(&name, move |net| {
        let kept = kept.clone();
        async move {
            let mut stream = net.to(host, 9_471).await;
            stream.write_all(request).await.expect("nobody has closed yet");
            let mut text = Vec::new();
            stream.read_to_end(&mut text).await.expect("it closes in order");
            *kept.lock().expect("nobody panics with it") = String::from_utf8(text).expect("it is text");
            String::new()
        }
    });
    let limit = cluster.sim.elapsed() + ms(3_000);
    cluster.until_that(limit, "the metrics are read", |c| !c.outcomes(&name).is_empty());
    told.lock().expect("nobody panics with it").clone()
}

#[test]
fn a_daemon_is_ready_once_it_is_in_and_leaves_when_it_is_told_to() {
    every_seed(|seed| {
        let mut cluster = met(seed);
        cluster.until(ms(1_000 + draw(seed, 1, 0, 700)));
        cluster.tell_to_leave("n2");
        cluster.until(cluster.sim.elapsed() + ms(500));
        assert_eq!(cluster.outcomes("n2"), ["ready", "left"]);
        assert_eq!(
            cluster.log.of("n2"),
            [
                "INFO node 2: calls meet:7471 for at most 120 s",
                "INFO node 2: joined cluster 'blue' at meet:7471",
                "INFO node 2: told to go: leaving",
                "INFO node 2: left",
            ]
        );
        assert_eq!(cluster.since_met().last().map(String::as_str), Some("INFO node 2 left"));
        cluster.finish();
    });
}

#[test]
fn the_daemon_that_coordinates_may_be_updated_while_the_others_live() {
    every_seed(|seed| {
        let mut cluster = met(seed);
        cluster.until(ms(1_000 + draw(seed, 1, 0, 700)));
        cluster.tell_to_leave("meet");
        cluster.until(cluster.sim.elapsed() + ms(draw(seed, 2, 1_000, 8_000)));
        assert_eq!(cluster.outcomes("meet"), ["ready", "left"]);
        let away = read(&mut cluster, "n1", b"GET /metrics HTTP/1.1\r\nHost: n1\r\n\r\n");
        assert!(away.contains("\nweft_coordinator_connected 0\n"), "{away}");
        // It left, which the others were told before the coordinator was gone.
        assert!(away.contains("\nweft_node_present{rank=\"2\"} 1\n"), "{away}");
        cluster.sim.bounce("meet");
        let limit = cluster.sim.elapsed() + ms(3_000 + 2_000 + 400);
        cluster.until_that(limit, "all are back", |c| {
            c.log.of("meet").iter().filter(|line| *line == "INFO all 3 nodes have met").count() == 2
        });
        assert_eq!(cluster.outcomes("n1"), ["ready"], "it lived on");
        cluster.finish();
    });
}

/// It is seen by the systems in the same moment.
#[test]
fn a_daemon_whose_systems_end_with_its_membership_says_why_that_ended() {
    every_seed(|seed| {
        let mut cluster = Cluster::new(seed, 3);
        cluster.coordinator("meet", |config| config.terms.scenario = String::new());
        cluster.daemon_with("n1", 1, config(), |mut seat| async move {
            while seat.members.changed().await.is_ok() {}
            Ok(())
        });
        cluster.until(ms(1_000 + draw(seed, 1, 0, 700)));
        cluster.tell_to_leave("meet");
        cluster.until(cluster.sim.elapsed() + ms(500));
        assert_eq!(cluster.outcomes("n1"), ["ready", "the coordinator at meet:7471 has ended the cluster"]);
        cluster.finish();
    });
}

#[test]
fn metrics_are_answered_and_nothing_else_is() {
    every_seed(|seed| {
        let mut cluster = met(seed);
        let metrics = read(&mut cluster, "meet", b"GET /metrics HTTP/1.1\r\nHost: meet\r\n\r\n");
        let (head, body) = metrics.split_once("\r\n\r\n").expect("a head and a body");
        assert!(head.starts_with("HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4"), "{head}");
        assert!(head.contains(&format!("Content-Length: {}", body.len())), "{head}");
        for line in [
            "weft_node_info{cluster=\"blue\",rank=\"0\",version=\"0.1.0\"} 1",
            "weft_coordinator_connected 1",
            "weft_nodes 3",
            "weft_node_present{rank=\"2\"} 1",
            "weft_joined_total 3",
            "weft_lost_total 0",
        ] {
            assert!(body.lines().any(|one| one == line), "{line} is not in {body}");
        }
        assert!(!body.contains("weft_system_running{"), "nobody runs one: {body}");
        let other = read(&mut cluster, "meet", b"GET / HTTP/1.1\r\n\r\n");
        assert!(other.starts_with("HTTP/1.1 404 Not Found\r\n"), "{other}");
        // Neither silence nor a request without end keeps anybody.
        assert_eq!(read(&mut cluster, "meet", b"GET "), "");
        assert!(read(&mut cluster, "meet", &[b'x'; 5_000]).starts_with("HTTP/1.1 404 Not Found\r\n"));
        cluster.finish();
    });
}

/// What a node with two systems reports, of which it does not serve one.
async fn reports(seat: Seat) -> Result<(), String> {
    let said = |said: &[(&str, &str)]| {
        said.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect()
    };
    let files = said(&[("state", "failed: the disk"), ("disk errors", "3")]);
    let segments = said(&[("state", "waits for a view"), ("kept", "2")]);
    let locks = said(&[("state", "running")]);
    let systems =
        [("files".to_string(), files), (format!("segments{WAITS}"), segments), ("locks".to_string(), locks)];
    let view = Some(View { number: 7, members: vec![1] });
    // Without a daemon there is nobody to tell.
    let _ = seat.reports.send(Report { view, systems: systems.into() }).await;
    systems::none(seat).await
}

#[test]
fn metrics_of_the_coordinator_say_what_runs_and_what_is_counted_on_every_node_that_is_here() {
    every_seed(|seed| {
        let mut cluster = Cluster::new(seed, 2);
        cluster.daemon("meet", 0, Config { cluster: Nodes { nodes: 2, ..config().cluster }, ..config() });
        cluster.daemon_with(
            "n1",
            1,
            Config { cluster: Nodes { nodes: 2, ..config().cluster }, ..config() },
            reports,
        );
        cluster.until(ms(2_000));
        let ask = b"GET /metrics HTTP/1.1\r\nHost: meet\r\n\r\n";
        let here = read(&mut cluster, "meet", ask);
        for line in [
            "weft_system_running{rank=\"1\",system=\"files\"} 0",
            "weft_system_running{rank=\"1\",system=\"locks\"} 1",
            "weft_system_running{rank=\"1\",system=\"segments\"} 0",
            "weft_view{rank=\"1\"} 7",
            "weft_reported{rank=\"1\",system=\"files\",what=\"disk errors\"} 3",
            "weft_reported{rank=\"1\",system=\"segments\",what=\"kept\"} 2",
        ] {
            assert!(here.lines().any(|one| one == line), "{line} is not in {here}");
        }
        assert!(!here.contains("what=\"state\""), "{here}");
        cluster.sim.crash("n1");
        cluster.until(cluster.sim.elapsed() + ms(7_000));
        let gone = read(&mut cluster, "meet", ask);
        assert!(gone.contains("\nweft_system_running{rank=\"1\",system=\"locks\"} 0\n"), "{gone}");
        assert!(!gone.contains("weft_reported{") && !gone.contains("weft_view{"), "{gone}");
        cluster.finish();
    });
}
