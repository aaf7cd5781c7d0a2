//! The first connections without the connection manager: nodes tell each other over byte streams what a queue pair
//! needs to know of its peer, and move their queue pairs through their states by hand.
//!
//! Every node calls those of lower rank and answers those of higher rank, one after the other, which cannot wait in a
//! circle: the lowest rank only answers. On a stream each side sends its [`ConnectionInfo`]. When it
//! is ready to receive it sends a byte that says so, and when it has the peer's byte it may send. A caller that is no
//! peer is hung up on.

use super::{AdoptError, Mesh, Prepared, Rank};
use std::future::poll_fn;
use std::io;
use thiserror::Error;
use weft_verbs::{
    Context, Gid, Migration, Modify, Mtu, Nanos, OutOfBand, Path, Psn, QpNum, QueuePair, Service, Stream,
    StreamListener, ToRtr, ToRts, Verbs, VerbsError,
};

/// How a mesh's first connections are made over byte streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bootstrap {
    /// The service of byte streams at which all nodes meet; the same everywhere.
    pub service: Service,
    /// Which of the port's GIDs this node sends from.
    pub gid_index: u8,
    /// How long the others may take to come.
    pub timeout: Nanos,
}

/// Why a mesh could not be connected.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum BootstrapError {
    /// This node cannot take part.
    #[error("the nodes cannot meet: {0}")]
    Verbs(#[from] VerbsError),
    /// A peer was called, and the connection could not be made.
    #[error("{node} cannot be reached: {why}")]
    Unreachable {
        /// Its name.
        node: String,
        /// The last reason.
        why: String,
    },
    /// Peers that should have called did not.
    #[error("not heard of: {}", .0.join(", "))]
    Absent(Vec<String>),
    /// The connection to oneself could not be made.
    #[error("the connection to oneself: {0}")]
    Loopback(AdoptError),
}

/// Between two calls of a peer that does not listen yet.
const PAUSE: Nanos = Nanos::from_millis(20);
/// How long one attempt may take: who calls and says nothing does not keep others waiting for ever.
const ATTEMPT: Nanos = Nanos::from_secs(5);
/// What a side says that is ready to receive.
const READY: u8 = b'R';

impl<V: Verbs> Mesh<V> {
    /// Connects this node with all others and with itself, in place of the connection manager, which makes later
    /// connections as ever. Returns when all stand. To be awaited before the mesh is used: what is sent earlier starts a
    /// connection by the connection manager.
    pub async fn bootstrap(&self, how: Bootstrap) -> Result<(), BootstrapError> {
        let run = BootstrapRun::new(self, how)?;
        run.connect_to_self()?;
        let mut listener = run.oob.listen(how.service)?;
        let (me, all) = (self.me().index(), self.size() as usize);
        for peer in 0..me {
            run.call(peer).await?;
        }
        let mut awaited: Vec<usize> = (me + 1..all).collect();
        while !awaited.is_empty() {
            let accepted = poll_fn(|cx| listener.poll_accept(cx));
            match self.shared.rt.deadline(run.until, accepted).await {
                Ok(Ok(stream)) => {
                    // A peer whose call breaks off calls again.
                    let answered = run.in_time(run.answer(stream, &awaited)).await;
                    awaited.retain(|peer| answered != Ok(*peer));
                }
                Ok(Err(_)) => self.shared.rt.sleep(PAUSE).await,
                Err(_) => return Err(BootstrapError::Absent(run.names(&awaited))),
            }
        }
        Ok(())
    }
}

/// What one node knows while it connects.
struct BootstrapRun<'m, V: Verbs> {
    mesh: &'m Mesh<V>,
    how: Bootstrap,
    oob: V::Oob,
    gid: Gid,
    lid: u16,
    mtu: Mtu,
    until: Nanos,
}

impl<'m, V: Verbs> BootstrapRun<'m, V> {
    fn new(mesh: &'m Mesh<V>, how: Bootstrap) -> Result<BootstrapRun<'m, V>, BootstrapError> {
        let (context, port) = (mesh.shared.rt.context(), mesh.shared.config.port);
        let attr = context.port_attr(port)?;
        let gid = context.gid(port, how.gid_index)?;
        let until = mesh.shared.rt.now() + how.timeout;
        Ok(BootstrapRun {
            mesh,
            how,
            oob: context.out_of_band()?,
            gid,
            lid: attr.lid,
            mtu: attr.active_mtu,
            until,
        })
    }

    fn names(&self, peers: &[usize]) -> Vec<String> {
        peers.iter().map(|peer| self.mesh.shared.config.peers[*peer].clone()).collect()
    }

    /// The connection info of a queue pair of this node.
    fn info_of(&self, of: &Prepared<V>) -> ConnectionInfo {
        let rt = &self.mesh.shared.rt;
        ConnectionInfo {
            rank: self.mesh.me().get(),
            qp: of.qp().num(),
            psn: Psn::new(rt.random() as u32),
            gid: self.gid,
            lid: self.lid,
            mtu: self.mtu,
            rd_atomic: self.mesh.shared.config.rd_atomic,
            introduction: of.introduction(),
        }
    }

    fn connect_to_self(&self) -> Result<(), BootstrapError> {
        let join = || {
            let [near, far] = self.mesh.prepare_loopback()?;
            let (of_near, of_far) = (self.info_of(&near), self.info_of(&far));
            self.receive(&near, &of_far)?;
            self.receive(&far, &of_near)?;
            self.send(&near, &of_near, &of_far)?;
            self.send(&far, &of_far, &of_near)?;
            near.adopt(&of_far.introduction)?;
            far.adopt(&of_near.introduction)
        };
        join().map_err(BootstrapError::Loopback)
    }

    async fn in_time<T>(&self, work: impl Future<Output = Result<T, String>>) -> Result<T, String> {
        let (work, rt) = (std::pin::pin!(work), &self.mesh.shared.rt);
        let until = self.until.min(rt.now() + ATTEMPT);
        rt.deadline(until, work).await.unwrap_or_else(|late| Err(late.to_string()))
    }

    /// Calls a peer until the connection stands or the time is over.
    async fn call(&self, peer: usize) -> Result<(), BootstrapError> {
        let rt = &self.mesh.shared.rt;
        loop {
            let why = match self.in_time(self.try_call(peer)).await {
                Ok(()) => return Ok(()),
                Err(why) => why,
            };
            if rt.now() + PAUSE >= self.until {
                let node = self.mesh.shared.config.peers[peer].clone();
                return Err(BootstrapError::Unreachable { node, why });
            }
            rt.sleep(PAUSE).await;
        }
    }

    async fn try_call(&self, peer: usize) -> Result<(), String> {
        let node = &self.mesh.shared.config.peers[peer];
        let mut stream = PeerStream::<V>(self.oob.connect(node, self.how.service).map_err(said)?);
        let prepared = self.mesh.prepare(Rank::from_index(peer as u32)).map_err(said)?;
        let mine = self.info_of(&prepared);
        stream.write(&mine.encode()).await?;
        let theirs = stream.info().await?;
        self.join(&mut stream, prepared, &mine, &theirs).await
    }

    /// Answers a call; which peer it was, if the connection stands.
    async fn answer(&self, stream: V::Stream, awaited: &[usize]) -> Result<usize, String> {
        let mut stream = PeerStream::<V>(stream);
        let theirs = stream.info().await?;
        let peer = awaited.iter().copied().find(|peer| *peer as u32 + 1 == theirs.rank);
        let peer = peer.ok_or_else(|| format!("rank {} is not awaited", theirs.rank))?;
        let prepared = self.mesh.prepare(Rank::from_index(peer as u32)).map_err(said)?;
        let mine = self.info_of(&prepared);
        stream.write(&mine.encode()).await?;
        self.join(&mut stream, prepared, &mine, &theirs).await?;
        Ok(peer)
    }

    async fn join(
        &self,
        stream: &mut PeerStream<V>,
        prepared: Prepared<V>,
        mine: &ConnectionInfo,
        theirs: &ConnectionInfo,
    ) -> Result<(), String> {
        self.receive(&prepared, theirs).map_err(said)?;
        stream.write(&[READY]).await?;
        let [ready] = stream.read().await?;
        if ready != READY {
            return Err("it does not keep to the protocol".to_string());
        }
        self.send(&prepared, mine, theirs).map_err(said)?;
        prepared.adopt(&theirs.introduction).map_err(said)
    }

    /// To ready-to-receive.
    fn receive(&self, prepared: &Prepared<V>, theirs: &ConnectionInfo) -> Result<(), VerbsError> {
        let config = &self.mesh.shared.config;
        let way = Path::to(theirs.gid, config.port);
        prepared.qp().modify(&Modify::Rtr(ToRtr {
            dest_qp: theirs.qp,
            rq_psn: theirs.psn,
            path: Path { dlid: theirs.lid, sgid_index: self.how.gid_index, ..way },
            mtu: if theirs.mtu.bytes() < self.mtu.bytes() { theirs.mtu } else { self.mtu },
            min_rnr_timer: config.rnr_timer,
            max_dest_rd_atomic: config.rd_atomic,
            alt: None,
        }))
    }

    /// To ready-to-send.
    fn send(
        &self,
        prepared: &Prepared<V>,
        mine: &ConnectionInfo,
        theirs: &ConnectionInfo,
    ) -> Result<(), VerbsError> {
        let config = &self.mesh.shared.config;
        prepared.qp().modify(&Modify::Rts(ToRts {
            sq_psn: mine.psn,
            timeout: config.timeout,
            retry: config.retry,
            rnr_retry: config.rnr_retry,
            max_rd_atomic: config.rd_atomic.min(theirs.rd_atomic),
            alt: None,
            migration: Migration::Migrated,
        }))
    }
}

fn said(why: impl std::fmt::Display) -> String {
    why.to_string()
}

/// What a peer needs to know of a queue pair.
#[derive(Clone, Debug, PartialEq, Eq)]
struct ConnectionInfo {
    rank: u32,
    qp: QpNum,
    /// The number of the first packet that it sends.
    psn: Psn,
    gid: Gid,
    lid: u16,
    mtu: Mtu,
    /// Reads and atomics that it serves at a time.
    rd_atomic: u8,
    introduction: Vec<u8>,
}

/// The length of its fixed part.
const FIXED_LEN: usize = 40;
/// Connection info of another version begins otherwise, and so does whatever a stranger sends.
const MAGIC: [u8; 4] = *b"wft1";

impl ConnectionInfo {
    fn encode(&self) -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        for word in [self.rank, self.qp.0, self.psn.get(), self.mtu.bytes()] {
            bytes.extend(word.to_le_bytes());
        }
        bytes.extend(self.gid.0);
        bytes.extend(self.lid.to_le_bytes());
        bytes.extend([self.rd_atomic, self.introduction.len() as u8]);
        bytes.extend(&self.introduction);
        bytes
    }

    /// Connection info but for its introduction, and how long that is.
    fn decode(bytes: &[u8; FIXED_LEN]) -> Option<(ConnectionInfo, usize)> {
        let word = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        let mut gid = Gid([0; 16]);
        gid.0.copy_from_slice(&bytes[20..36]);
        let info = ConnectionInfo {
            rank: word(4),
            qp: QpNum(word(8)),
            psn: Psn::new(word(12)),
            mtu: Mtu::from_bytes(word(16))?,
            gid,
            lid: u16::from_le_bytes([bytes[36], bytes[37]]),
            rd_atomic: bytes[38],
            introduction: Vec::new(),
        };
        (bytes[..4] == MAGIC).then_some((info, usize::from(bytes[39])))
    }
}

/// A byte stream to a peer.
struct PeerStream<V: Verbs>(V::Stream);

impl<V: Verbs> PeerStream<V> {
    async fn write(&mut self, mut bytes: &[u8]) -> Result<(), String> {
        while !bytes.is_empty() {
            let written = poll_fn(|cx| self.0.poll_write(cx, bytes)).await.map_err(said)?;
            bytes = &bytes[written..];
        }
        Ok(())
    }

    async fn fill(&mut self, bytes: &mut [u8]) -> Result<(), String> {
        let mut full = 0;
        while full < bytes.len() {
            match poll_fn(|cx| self.0.poll_read(cx, &mut bytes[full..])).await {
                Ok(0) => return Err(io::Error::from(io::ErrorKind::UnexpectedEof).to_string()),
                Ok(read) => full += read,
                Err(why) => return Err(why.to_string()),
            }
        }
        Ok(())
    }

    async fn read<const N: usize>(&mut self) -> Result<[u8; N], String> {
        let mut bytes = [0; N];
        self.fill(&mut bytes).await?;
        Ok(bytes)
    }

    async fn info(&mut self) -> Result<ConnectionInfo, String> {
        let fixed = self.read::<FIXED_LEN>().await?;
        let (mut info, len) = ConnectionInfo::decode(&fixed).ok_or("it speaks another language")?;
        info.introduction = vec![0; len];
        self.fill(&mut info.introduction).await?;
        Ok(info)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_card_survives_the_way_and_others_are_refused() {
        let info = ConnectionInfo {
            rank: 3,
            qp: QpNum(0x1234),
            psn: Psn::new(0xab_cdef),
            gid: Gid([7; 16]),
            lid: 0x102,
            mtu: Mtu::B2048,
            rd_atomic: 16,
            introduction: vec![9; 44],
        };
        let bytes = info.encode();
        let mut fixed: [u8; FIXED_LEN] = bytes[..FIXED_LEN].try_into().expect("connection info is longer");
        let (read, len) = ConnectionInfo::decode(&fixed).expect("connection info");
        assert_eq!((ConnectionInfo { introduction: bytes[FIXED_LEN..].to_vec(), ..read }, len), (info, 44));
        fixed[16] = 3;
        assert_eq!(ConnectionInfo::decode(&fixed), None, "no such size of packets");
        fixed = [b'G'; FIXED_LEN];
        assert_eq!(ConnectionInfo::decode(&fixed), None, "a stranger");
    }
}
