//! A record select as STORM does it (6.4.1): a dataset stands in the memory of all nodes, and several queries select records of it at
//! once. Pieces are got asynchronously, one ahead of the one that is searched. Model write: nobody locks anything.

use crate::cluster::{Fails, Machine, run};
use weft_protocols::ddss::{Ddss, DdssError, Model, Name, Spec};
use weft_verbs::{Nanos, Verbs, Work};

const NODES: u32 = 4;
const PIECES: u64 = 16;
const RECORDS_A_PIECE: u64 = 128;
/// A record: a number, and a value that queries ask for.
const RECORD: usize = 16;
const SPEC: Spec = Spec { size: RECORDS_A_PIECE as u32 * RECORD as u32, model: Model::Write };

/// A record's value.
fn value(number: u64) -> u64 {
    number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 48
}

/// Stores every node's share of the dataset at that node: of a piece's name, the home is the rest by the number of nodes.
async fn load<V: Verbs>(ddss: &Ddss<V>, node: u64) -> Result<(), DdssError> {
    for piece in (0..PIECES).filter(|piece| piece % u64::from(NODES) == node) {
        let segment = ddss.open(Name(piece), SPEC).await?;
        let first = piece * RECORDS_A_PIECE;
        let record = |number: u64| [number.to_le_bytes(), value(number).to_le_bytes()].concat();
        let bytes: Vec<u8> = (first..first + RECORDS_A_PIECE).flat_map(record).collect();
        ddss.put(&segment, &bytes).await?;
    }
    Ok(())
}

/// Selects the records whose value is in a range: their numbers.
async fn select<V: Verbs>(
    ddss: &Ddss<V>,
    wanted: std::ops::Range<u64>,
    spend: impl Fn(),
) -> Result<Vec<u64>, DdssError> {
    let mut selected = Vec::new();
    let mut next = Some(ddss.begin_get(&ddss.open(Name(0), SPEC).await?));
    for piece in 1..=PIECES {
        let Some(get) = next.take() else { break };
        let (bytes, _) = get.wait().await?;
        if piece < PIECES {
            next = Some(ddss.begin_get(&ddss.open(Name(piece), SPEC).await?));
        }
        let (words, _) = bytes.as_chunks::<8>();
        let (records, _) = words.as_chunks::<2>();
        for record in records {
            let [number, value] = record.map(u64::from_le_bytes);
            if wanted.contains(&value) {
                selected.push(number);
            }
        }
        spend();
    }
    Ok(selected)
}

/// What a node's query asks for.
fn wanted(node: u32) -> std::ops::Range<u64> {
    let from = u64::from(node) * 10_000;
    from..from + 6_000
}

async fn node(node: u32, machine: Machine) -> Result<Vec<u64>, Fails> {
    let Machine { rt, ddss } = machine;
    load(&ddss, node.into()).await?;
    // All are loaded then.
    rt.sleep_until(Nanos::from_millis(5)).await;
    let search = || rt.spend(Work::Compute(Nanos::from_micros(3)));
    Ok(select(&ddss, wanted(node), search).await?)
}

pub fn show() -> Result<String, Fails> {
    let found: Vec<String> = run(NODES, node)?.iter().map(|found| found.len().to_string()).collect();
    Ok(format!("{NODES} queries of {} records selected {}", PIECES * RECORDS_A_PIECE, found.join(", ")))
}

#[test]
fn every_query_selects_exactly_the_records_that_it_asks_for() {
    for (node, found) in (0..).zip(run(NODES, node).expect("a run that ends")) {
        let all = (0..PIECES * RECORDS_A_PIECE).filter(|number| wanted(node).contains(&value(*number)));
        assert_eq!(found, all.collect::<Vec<_>>(), "query {node}");
        assert!(found.len() > 50);
    }
}
