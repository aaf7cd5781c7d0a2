//! Distributed locks: two nodes change one thing in turn.
//!
//! Each node runs a lock service, and an application that reads a balance, waits, and writes it back. Without the lock one
//! of the two payments would be lost.
//!
//! `cargo run -p weft-protocols --example locks`

use std::cell::Cell;
use std::error::Error;
use std::rc::Rc;
use weft_protocols::locks::{LockConfig, LockError, LockService, Mode, Scheme};
use weft_protocols::rt::{Rt, RtConfig};
use weft_protocols::transport::{Mesh, MeshConfig, Rank};
use weft_sim::choice::Seeded;
use weft_sim::profile::Profile;
use weft_sim::{Config, Fabric, NodeId, Sim};
use weft_verbs::{Device, Nanos, Verbs};

async fn pay<V: Verbs>(
    rt: Rt<V>,
    locks: LockService<V>,
    balance: Rc<Cell<u64>>,
    amount: u64,
) -> Result<(), LockError> {
    let account = locks.client().lock("account", Mode::Exclusive).await?;
    let before = balance.get();
    rt.sleep(Nanos::from_micros(50)).await;
    balance.set(before + amount);
    account.unlock().await;
    Ok(())
}

/// Runs both applications on a simulated fabric, and gives back the balance.
fn run(scheme: Scheme) -> Result<u64, Box<dyn Error>> {
    let profile = Profile::builtin("present-day")?;
    let fabric = Fabric::new(Config::new(2, profile), Box::new(Seeded::new(1)))?;
    let names = vec!["n0".to_owned(), "n1".to_owned()];
    // It stands for memory that both nodes use; what guards it is the lock alone.
    let balance = Rc::new(Cell::new(0));
    for (node, amount) in [(0, 30), (1, 12)] {
        let rt = Rt::<Sim>::new(&fabric.devices(NodeId(node))[0].open()?, RtConfig::default())?;
        let mesh = Mesh::start(&rt, MeshConfig::new(Rank::from_index(node), names.clone()))?;
        let locks = LockService::start(&rt, &mesh, LockConfig::new(scheme, 2))?;
        drop(rt.spawn(pay(rt.clone(), locks, Rc::clone(&balance), amount)));
        fabric.mount(NodeId(node), Box::new(rt.program()));
    }
    fabric.run_until(Nanos::from_millis(100));
    Ok(balance.get())
}

fn main() -> Result<(), Box<dyn Error>> {
    for scheme in Scheme::ALL {
        println!("{scheme}: the balance is {}", run(scheme)?);
    }
    Ok(())
}

#[test]
fn no_payment_is_lost() {
    for scheme in Scheme::ALL {
        assert_eq!(run(scheme).expect("a good configuration"), 42, "{scheme}");
    }
}
