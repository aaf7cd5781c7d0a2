//! What each call costs, as the page has it.

use std::cell::RefCell;
use std::fs;
use std::path::Path;
use std::rc::Rc;
use weft_check::paper::{Cluster, Machine};
use weft_protocols::pario::{Datatype, FsConfig, FsError, Pario, SetAttributes, View};
use weft_sim::profile::Profile;
use weft_sim::{Asked, Config, Fabric, Sim};
use weft_verbs::{Nanos, Wait};

/// What both nodes have done so far: messages, RDMA operations, work requests of both kinds of queues, completions, registrations, bytes
/// copied, batches of the log.
fn done(fabric: &Fabric, machines: &[Machine], files: &[Pario<Sim>]) -> Costs {
    let asked = fabric.stats().asked;
    let adapters = |of: fn(&Asked) -> u64| asked.iter().map(of).sum::<u64>();
    let mesh = |of: fn(&weft_protocols::transport::MeshStats) -> u64| {
        machines.iter().map(|machine| of(&machine.mesh.stats())).sum::<u64>()
    };
    let files = |of: fn(&weft_protocols::pario::FsStats) -> u64| {
        files.iter().map(|files| of(&files.stats())).sum::<u64>()
    };
    [
        mesh(|stats| stats.messages_sent),
        mesh(|stats| stats.operations),
        adapters(|asked| asked.sends),
        adapters(|asked| asked.receives),
        adapters(|asked| asked.completions),
        adapters(|asked| asked.registrations),
        files(|stats| stats.copied),
        files(|stats| stats.commits),
    ]
}

/// What is counted.
type Costs = [u64; 8];

type Table = Rc<RefCell<Vec<(&'static str, Costs)>>>;

struct Bench {
    fabric: Fabric,
    machines: Vec<Machine>,
    files: Vec<Pario<Sim>>,
    table: Table,
    before: Costs,
}

impl Bench {
    async fn note(&mut self, call: &'static str) {
        // A batch of the log that a call leaves behind, and what acknowledges.
        self.machines[1].rt.sleep(Nanos::from_millis(20)).await;
        let now = done(&self.fabric, &self.machines, &self.files);
        let cost = std::array::from_fn(|nth| now[nth] - self.before[nth]);
        self.before = now;
        self.table.borrow_mut().push((call, cost));
    }
}

async fn calls(mut bench: Bench) -> Result<(), FsError> {
    let files = bench.files[1].clone();
    let (small, large) = (4 << 10, 1 << 20);
    // The first file connects and registers.
    let file = files.create("first", None).await?;
    for len in [small, large] {
        files.write(&file, 0, files.buffer(len)?).await.0?;
    }
    files.close(file).await?;
    bench.note("").await;
    let file = files.create("a", None).await?;
    bench.note("create").await;
    files.write(&file, 0, files.buffer(small)?).await.0?;
    bench.note("write of 4 KiB").await;
    files.read(&file, 0, files.buffer(small)?).await.0?;
    bench.note("read of 4 KiB").await;
    files.write(&file, 0, files.buffer(large)?).await.0?;
    bench.note("write of 1 MiB").await;
    files.read(&file, 0, files.buffer(large)?).await.0?;
    bench.note("read of 1 MiB").await;
    let piece = Datatype::bytes(small as u64).ok_or(FsError::TooLong)?;
    let pieces = Datatype::vector(64, 2 * small as u64, piece).and_then(|pieces| View::new(0, pieces));
    let (there, here) = pieces.zip(View::of(0..64 * small as u64)).ok_or(FsError::TooLong)?;
    files.write_list(&file, &there, files.buffer(64 * small)?, &here).await.0?;
    bench.note("write of a list of 64 pieces of 4 KiB").await;
    files.read_list(&file, &there, files.buffer(64 * small)?, &here).await.0?;
    bench.note("read of that list").await;
    files.append(&file, files.buffer(small)?).await.0?;
    bench.note("first append of 4 KiB").await;
    files.append(&file, files.buffer(small)?).await.0?;
    bench.note("another append").await;
    files.truncate(&file, 100).await?;
    bench.note("truncate").await;
    files.sync(&file).await?;
    bench.note("sync").await;
    files.close(file).await?;
    bench.note("close").await;
    let file = files.open("a").await?;
    bench.note("open").await;
    files.close(file).await?;
    bench.note("").await;
    files.stat("a").await?;
    bench.note("stat").await;
    files.set_attributes("a", SetAttributes { mode: Some(0o600), ..SetAttributes::default() }).await?;
    bench.note("set_attributes").await;
    files.rename("a", "b").await?;
    bench.note("rename").await;
    files.unlink("b").await?;
    bench.note("unlink").await;
    files.mkdir("d").await?;
    bench.note("mkdir").await;
    files.readdir("").await?;
    bench.note("readdir").await;
    Ok(())
}

#[test]
fn each_call_costs_what_the_page_says() {
    let profile = Profile::builtin("present-day").expect("a profile");
    let config = FsConfig::new(1);
    let cluster = Cluster::new(
        Config::new(2, profile),
        |_| Wait::Poll,
        |mesh| {
            mesh.max_message = config.max_message();
        },
    )
    .expect("a cluster");
    let start = |Machine { rt, mesh }: &Machine| Pario::start(rt, mesh, config).expect("it can be");
    let files: Vec<_> = cluster.machines.iter().map(start).collect();
    let (table, ended) = (Table::default(), Rc::new(RefCell::new(Vec::new())));
    let machines = cluster.machines.clone();
    let before = Costs::default();
    let bench = Bench { fabric: cluster.fabric.clone(), machines, files, table: Rc::clone(&table), before };
    let end = Rc::clone(&ended);
    drop(cluster.machines[1].rt.spawn(async move {
        let done = calls(bench).await;
        end.borrow_mut().push(done);
    }));
    let ended = cluster.finish(Nanos::from_secs(5), &ended, 1).expect("all calls end");
    assert_eq!(ended, [Ok(())]);
    let row = |(call, costs): &(&str, Costs)| {
        let costs: String = costs.iter().map(|cost| format!(" {cost} |")).collect();
        format!("| {call} |{costs}")
    };
    let rows: Vec<String> = table.borrow().iter().filter(|(call, _)| !call.is_empty()).map(row).collect();
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/pario.md");
    let page = fs::read_to_string(page).expect("the page");
    let missing: Vec<&String> = rows.iter().filter(|row| !page.lines().any(|line| line == *row)).collect();
    assert!(missing.is_empty(), "the page is to have\n{}", rows.join("\n"));
}
