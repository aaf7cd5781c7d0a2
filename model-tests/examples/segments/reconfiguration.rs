//! Dynamic reconfiguration (6.3.1): managers move free servers to the sites that are loaded. A server's state is locked while it is
//! moved, so that no two managers move it, and everybody follows by a map with a version.

use crate::cluster::{Fails, Machine, run};
use weft_protocols::ddss::{Ddss, DdssError, Model, Name, Segment, Spec};
use weft_verbs::Verbs;

/// Nodes: each is a server, and a manager.
const NODES: u32 = 6;
const SITES: u8 = 3;
/// A server's state: the site that it serves, or [`FREE`].
const STATE: Spec = Spec { size: 1, model: Model::Strict };
const FREE: u8 = 0;
/// How many servers serve each site: of site n, byte n.
const MAP: Spec = Spec { size: SITES as u32 + 1, model: Model::Version };
const MAP_NAME: Name = Name(NODES as u64);

async fn state<V: Verbs>(ddss: &Ddss<V>, server: u32) -> Result<Segment<V>, DdssError> {
    ddss.open(Name(u64::from(server)), STATE).await
}

/// Gives a site one free server, if there is one: looks for it, locks it, looks whether it is still free, says that it serves the
/// site, and counts it on the map, which has a lock of its own. Returns the server.
async fn reconfigure<V: Verbs>(ddss: &Ddss<V>, site: u8) -> Result<Option<u32>, DdssError> {
    for server in 0..NODES {
        let (segment, mut serves) = (state(ddss, server).await?, [0]);
        ddss.get(&segment, &mut serves).await?;
        if serves[0] != FREE {
            continue;
        }
        let mut held = ddss.lock(&segment).await?;
        held.get(&mut serves).await?;
        if serves[0] == FREE {
            held.put(&[site]).await?;
            let map = ddss.open(MAP_NAME, MAP).await?;
            let (mut held_map, mut sites) = (ddss.lock(&map).await?, [0; MAP.size as usize]);
            held_map.get(&mut sites).await?;
            sites[usize::from(site)] += 1;
            held_map.put(&sites).await?;
            held_map.unlock().await?;
            held.unlock().await?;
            return Ok(Some(server));
        }
        held.unlock().await?;
    }
    Ok(None)
}

/// Each manager asks for two servers for its site. What it got, and the map as it is once nobody gets any more.
async fn node(node: u32, machine: Machine) -> Result<(Vec<(u32, u8)>, Vec<u8>), Fails> {
    let Machine { rt, ddss } = machine;
    let site = 1 + (node % u32::from(SITES)) as u8;
    let mut moved = Vec::new();
    for _ in 0..2 {
        moved.extend(reconfigure(&ddss, site).await?.map(|server| (server, site)));
    }
    // Servers look whether the map has changed, and move data only then.
    let (map, mut sites, mut version) = (ddss.open(MAP_NAME, MAP).await?, [0; MAP.size as usize], None);
    for _ in 0..20 {
        version = ddss.get_if_newer(&map, version, &mut sites).await?.or(version);
        rt.sleep(weft_verbs::Nanos::from_micros(100)).await;
    }
    Ok((moved, sites.to_vec()))
}

pub fn show() -> Result<String, Fails> {
    let moved: Vec<(u32, u8)> = run(NODES, node)?.into_iter().flat_map(|(moved, _)| moved).collect();
    let words: Vec<String> = moved.iter().map(|(server, site)| format!("{server} to site {site}")).collect();
    Ok(format!("of {NODES} free servers were moved: {}", words.join(", ")))
}

#[test]
fn every_free_server_is_moved_once_and_everybody_sees_the_same_map() {
    let results = run(NODES, node).expect("a run that ends");
    let mut moved: Vec<(u32, u8)> = results.iter().flat_map(|(moved, _)| moved.clone()).collect();
    moved.sort_unstable();
    assert_eq!(moved.iter().map(|(server, _)| *server).collect::<Vec<_>>(), (0..NODES).collect::<Vec<_>>());
    let mut map = vec![0; MAP.size as usize];
    moved.iter().for_each(|(_, site)| map[usize::from(*site)] += 1);
    assert!(results.iter().all(|(_, seen)| *seen == map), "{results:?}");
}
