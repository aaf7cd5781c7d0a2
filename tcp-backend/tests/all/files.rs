//! Files over byte streams between machines without adapters, one thread each, on real files.

use crate::bed::{Net, Scratch};
use std::cell::RefCell;
use std::net::IpAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread::{self, JoinHandle};
use weft_protocols::pario::{Buffer, File, FsConfig, FsError, Pario, Sync, Wire};
use weft_protocols::rt::{Rt, RtConfig};
use weft_protocols::transport::{Mesh, MeshConfig, Rank};
use weft_store::Objects;
use weft_tcp::{Driver, Ended, Tcp, TcpContext};
use weft_verbs::{Nanos, Wait};

const SERVERS: u32 = 2;

/// Names and addresses of all machines, of which the last one is the client's.
type Addresses = Vec<(String, IpAddr)>;

/// A node of files.
struct Machine {
    rt: Rt<Tcp>,
    files: Pario<Tcp>,
    driver: Driver,
}

fn machine(rank: u32, all: &Addresses, store: Option<Arc<Objects>>) -> Machine {
    let context = TcpContext::open(Some(all[rank as usize].1), store).expect("a machine");
    all.iter().for_each(|(name, address)| context.name_peer(name, *address));
    let rt = Rt::new(&context, RtConfig { wait: Wait::Notify, ..RtConfig::default() }).expect("a runtime");
    let names = all.iter().map(|(name, _)| name.clone()).collect();
    let mesh = Mesh::start(&rt, MeshConfig::new(Rank::from_index(rank), names)).expect("a mesh");
    let config = FsConfig { wire: Wire::Tcp, sync: Sync::Asked, ..FsConfig::new(SERVERS) };
    let files = Pario::start(&rt, &mesh, config).expect("files");
    Machine { rt, files, driver: Driver::new(&context) }
}

/// A server's thread.
struct Server {
    thread: Option<JoinHandle<()>>,
    stop: Arc<AtomicBool>,
    /// How often it has begun.
    begun: Arc<AtomicU32>,
    /// How often it is to begin.
    lives: Arc<AtomicU32>,
}

impl Server {
    fn start(rank: u32, all: &Addresses, scratch: &Arc<Scratch>) -> Server {
        let (stop, begun, lives) =
            (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(1)));
        let thread = thread::spawn({
            let (stop, begun, lives) = (Arc::clone(&stop), Arc::clone(&begun), Arc::clone(&lives));
            let (all, scratch) = (all.clone(), Arc::clone(scratch));
            move || {
                while !stop.load(Ordering::SeqCst) {
                    let Machine { rt, files, mut driver } =
                        machine(rank, &all, Some(scratch.store(rank as usize)));
                    let life = begun.fetch_add(1, Ordering::SeqCst) + 1;
                    let over = || stop.load(Ordering::SeqCst) || lives.load(Ordering::SeqCst) > life;
                    // It ends in the middle of whatever it does.
                    driver.run(&mut rt.program(), over);
                    drop(files);
                }
            }
        });
        Server { thread: Some(thread), stop, begun, lives }
    }

    /// Ends it, and waits until it is there again.
    async fn restart(&self, rt: &Rt<Tcp>) {
        let lives = self.lives.fetch_add(1, Ordering::SeqCst) + 1;
        while self.begun.load(Ordering::SeqCst) < lives {
            rt.sleep(Nanos::from_millis(5)).await;
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
        let ended = self.thread.take().map(JoinHandle::join);
        assert!(thread::panicking() || matches!(ended, Some(Ok(()))), "a server panicked");
    }
}

/// Runs a client among two servers.
fn client<F: Future<Output = Result<(), FsError>> + 'static>(
    name: &str,
    run: impl FnOnce(Rt<Tcp>, Pario<Tcp>, Vec<Server>) -> F,
) {
    let net = Net::new();
    let address = |rank: u32| (format!("n{rank}"), net.address(rank as usize));
    let all: Addresses = (0..=SERVERS).map(address).collect();
    let scratch = Arc::new(Scratch::new(name));
    let servers = (0..SERVERS).map(|rank| Server::start(rank, &all, &scratch)).collect();
    let Machine { rt, files, mut driver } = machine(SERVERS, &all, None);
    let ended = Rc::new(RefCell::new(None));
    let program = run(rt.clone(), files, servers);
    drop(rt.spawn({
        let (rt, ended) = (rt.clone(), Rc::clone(&ended));
        async move {
            let came_to = program.await;
            *ended.borrow_mut() = Some(came_to);
            rt.shutdown();
        }
    }));
    let end = weft_tcp::now() + Nanos::from_secs(60);
    assert_eq!(driver.run(&mut rt.program(), || weft_tcp::now() > end), Ended::Done, "it takes a minute");
    assert_eq!(ended.take(), Some(Ok(())));
}

/// Makes a file. A server that is not there yet is asked again.
async fn made(rt: &Rt<Tcp>, files: &Pario<Tcp>, name: &str) -> Result<File<Tcp>, FsError> {
    loop {
        match files.create(name, None).await {
            Err(FsError::Unknown) => rt.sleep(Nanos::from_millis(10)).await,
            // Its answer was lost.
            Err(FsError::Exists) => return files.open(name).await,
            made => return made,
        }
    }
}

fn filled(files: &Pario<Tcp>, len: usize, seed: u8) -> Result<Buffer<Tcp>, FsError> {
    let bytes: Vec<u8> = (0..len).map(|at| (at / 251) as u8 ^ at as u8 ^ seed).collect();
    let buffer = files.buffer(len)?;
    buffer.write(0, &bytes)?;
    Ok(buffer)
}

fn content(buffer: &Buffer<Tcp>, len: usize) -> Result<Vec<u8>, FsError> {
    let mut bytes = vec![0; len];
    buffer.read(0, &mut bytes)?;
    Ok(bytes)
}

/// Longer than a strip, a unit and what a socket holds, and no multiple of anything.
const LEN: usize = 5_000_001;

#[test]
fn a_file_on_two_servers_comes_back_byte_for_byte() {
    client("whole", async |rt, files, servers| {
        let file = made(&rt, &files, "a file").await?;
        let buffer = filled(&files, LEN, 3)?;
        let sent = content(&buffer, LEN)?;
        let (written, _) = files.write(&file, 0, buffer).await;
        written?;
        files.sync(&file).await?;
        assert_eq!(files.size(&file).await?, LEN as u64);
        let (read, buffer) = files.read(&file, 0, files.buffer(LEN)?).await;
        assert_eq!(read?, LEN);
        assert!(content(&buffer, LEN)? == sent, "other bytes came back");
        files.close(file).await?;
        drop(servers);
        Ok(())
    });
}

#[test]
fn what_was_synced_survives_servers_that_begin_anew_and_who_wrote_more_is_told_once() {
    client("restarts", async |rt, files, servers| {
        let file = made(&rt, &files, "a file").await?;
        let buffer = filled(&files, LEN, 5)?;
        let sent = content(&buffer, LEN)?;
        let (written, _) = files.write(&file, 0, buffer).await;
        written?;
        files.sync(&file).await?;
        for server in &servers {
            server.restart(&rt).await;
        }
        // A stream that broke is noticed when it is used.
        let (read, buffer) = loop {
            match files.read(&file, 0, files.buffer(LEN)?).await {
                (Err(FsError::Unknown), _) => rt.sleep(Nanos::from_millis(10)).await,
                ended => break ended,
            }
        };
        assert_eq!(read?, LEN);
        assert!(content(&buffer, LEN)? == sent, "other bytes came back");
        let (written, _) = files.write(&file, 0, filled(&files, LEN, 7)?).await;
        written?;
        servers[1].restart(&rt).await;
        let told = loop {
            match files.sync(&file).await {
                Err(FsError::Unknown) => rt.sleep(Nanos::from_millis(10)).await,
                told => break told,
            }
        };
        assert_eq!(told, Err(FsError::WritesLost));
        assert_eq!(files.sync(&file).await, Ok(()), "it is told once");
        drop(servers);
        Ok(())
    });
}
