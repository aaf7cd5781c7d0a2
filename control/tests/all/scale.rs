//! How long many nodes take to meet.
//!
//! Turmoil looks at every pair of its hosts at each tick, so a thousand hosts are out of its reach: here machines run
//! several nodes each, as clusters do.

use crate::cluster::{member, ms, secret, terms};
use crate::network::{Simulated, Sockets};
use std::cell::Cell;
use std::rc::Rc;
use std::time::{Duration, Instant};
use weft_control::coordinator::{Config, Coordinator};
use weft_control::member::join;
use weft_control::net::Endpoint;
use weft_control::timing::Timing;

/// When the last of so many nodes knows all others: in the simulation's time, and in this machine's.
fn bootstrap(nodes: u32, machines: u32) -> (Duration, Duration) {
    let began = Instant::now();
    let mut sim = turmoil::Builder::new()
        .rng_seed(1)
        .tick_duration(ms(10))
        .min_message_latency(ms(1))
        .max_message_latency(ms(20))
        .simulation_duration(Duration::from_secs(600))
        .tcp_capacity(4_096)
        .build();
    let net = Simulated::new(Sockets::default());
    let coordinator = net.clone();
    sim.host("meet", move || {
        let net = coordinator.clone();
        async move {
            let config = Config {
                listen: Endpoint::new("0.0.0.0", weft_control::PORT),
                terms: terms(nodes),
                secret: secret(),
                timing: Timing::default(),
            };
            let (coordinator, _handle, events) = Coordinator::bind(&net, config).await?;
            drop(events);
            coordinator.run().await;
            Ok(())
        }
    });
    let met = Rc::new(Cell::new(0));
    for machine in 0..machines {
        let (net, met) = (net.clone(), Rc::clone(&met));
        sim.host(format!("m{machine}"), move || {
            let (net, met) = (net.clone(), Rc::clone(&met));
            async move {
                let mut all = tokio::task::JoinSet::new();
                for rank in (machine..nodes).step_by(machines as usize) {
                    let net = net.clone();
                    all.spawn(async move {
                        let membership =
                            join(net, member(rank, nodes, u64::from(rank) + 1)).await.expect("it is let in");
                        let mut members = membership.members();
                        let met = members.wait_for(|members| members.missing(nodes).is_empty()).await;
                        assert_eq!(met.expect("it stays").entries.len(), nodes as usize);
                        membership
                    });
                }
                let members = all.join_all().await;
                met.set(met.get() + members.len());
                std::future::pending::<()>().await;
                Ok(())
            }
        });
    }
    while met.get() < nodes as usize {
        assert!(sim.elapsed() < Duration::from_secs(60), "{} of {nodes} have met", met.get());
        sim.step().expect("no host fails");
    }
    (sim.elapsed(), began.elapsed())
}

#[test]
fn a_thousand_nodes_meet_within_two_seconds() {
    let (few, _) = bootstrap(100, 20);
    let (many, took) = bootstrap(1_000, 50);
    println!(
        "100 nodes: {few:?}; 1,000 nodes: {many:?} of the simulation's time, {took:?} of this machine's"
    );
    assert!(many < Duration::from_secs(2), "{many:?}");
    // n log n would be 15 times as long.
    assert!(many < few * 15, "100 nodes take {few:?}, and 1,000 {many:?}");
}
