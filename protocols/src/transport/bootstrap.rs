//! The first connections of a cluster without the connection manager: nodes tell each other what a queue pair needs to know of its
//! peer, and move their queue pairs through their states by hand.
//!
//! | step | what it does | before the next one |
//! |---|---|---|
//! | [`Mesh::introduce`] | a queue pair for each peer, and a card for it | each card is carried to its peer |
//! | [`Introduced::receive`] | the queue pairs are ready to receive | all nodes have come so far |
//! | [`Acquainted::connect`] | they are ready to send, and the mesh has its connections | |
//!
//! What carries the cards is the caller's: a coordinator, PMI, a file. Who can change a card on its way can take the peer's place, so
//! it should be a way on which nobody else speaks.

use super::{AdoptError, Mesh, MeshConfig, Prepared, Rank};
use thiserror::Error;
use weft_verbs::{
    Context, Gid, Migration, Modify, Mtu, Path, PortAttr, Psn, QpNum, QueuePair, ToRtr, ToRts, Verbs,
    VerbsError,
};

/// Why a mesh could not be connected.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum BootstrapError {
    /// The port cannot be used.
    #[error("the nodes cannot meet: {0}")]
    Port(VerbsError),
    /// The connection to oneself could not be made.
    #[error("the connection to oneself: {0}")]
    Loopback(AdoptError),
    /// One to a peer could not be made.
    #[error("the connection to {node}: {why}")]
    Peer {
        /// Its name.
        node: String,
        /// Why.
        why: AdoptError,
    },
    /// A card for each node was wanted, in the order of their ranks.
    #[error("{got} cards of {want} nodes")]
    Cards {
        /// So many there were.
        got: usize,
        /// So many nodes there are.
        want: usize,
    },
    /// A peer's card is none, or another version's, or another node's.
    #[error("what {0} says of its queue pair is not understood: have all nodes the same version?")]
    Card(String),
}

/// A node that has a queue pair for each peer, and tells each of its own.
pub struct Introduced<V: Verbs> {
    mesh: Mesh<V>,
    port: LocalPort,
    /// By rank; none for oneself.
    peers: Vec<Option<(Prepared<V>, ConnectionInfo)>>,
}

/// A node that is ready to receive from each peer.
pub struct Acquainted<V: Verbs> {
    mesh: Mesh<V>,
    peers: Vec<Meeting<V>>,
}

/// A queue pair, what its peer was told of it, and what the peer has told.
struct Meeting<V: Verbs> {
    prepared: Prepared<V>,
    mine: ConnectionInfo,
    theirs: ConnectionInfo,
}

/// What this node sends from.
#[derive(Clone, Copy)]
struct LocalPort {
    gid_index: u8,
    gid: Gid,
    lid: u16,
    /// The longest packet: the port's, or the mesh's if that is shorter.
    mtu: Mtu,
}

impl<V: Verbs> Mesh<V> {
    /// Begins to connect this node with all others, and connects it with itself. `gid_index` says which of the port's GIDs it sends from.
    ///
    /// To be done before the mesh is used: what is sent earlier starts a connection by the connection manager, which makes all later
    /// connections as ever.
    ///
    /// # Errors
    ///
    /// The port cannot be used, or there is or was a connection to a peer.
    pub fn introduce(&self, gid_index: u8) -> Result<Introduced<V>, BootstrapError> {
        let port = LocalPort::of(self, gid_index).map_err(BootstrapError::Port)?;
        connect_to_self(self, port).map_err(BootstrapError::Loopback)?;
        let me = self.me().index();
        let prepare = |peer: usize| {
            if peer == me {
                return Ok(None);
            }
            let prepared =
                self.prepare(Rank::from_index(peer as u32)).map_err(|why| failed(self, peer, why))?;
            let mine = info_of(self, port, &prepared);
            Ok(Some((prepared, mine)))
        };
        let peers = (0..self.size() as usize).map(prepare).collect::<Result<_, BootstrapError>>()?;
        Ok(Introduced { mesh: self.clone(), port, peers })
    }
}

impl<V: Verbs> Introduced<V> {
    /// The card for each node, by rank: bytes to be carried there as they are, some 100. Empty for oneself.
    pub fn cards(&self) -> Vec<Vec<u8>> {
        let card = |peer: &Option<(_, ConnectionInfo)>| peer.as_ref().map(|(_, mine)| mine.encode());
        self.peers.iter().map(card).map(Option::unwrap_or_default).collect()
    }

    /// Takes the card that each node has for this one, by rank. One's own is not looked at.
    ///
    /// # Errors
    ///
    /// A card is missing or not understood, or the device refuses what it says.
    pub fn receive(self, cards: &[Vec<u8>]) -> Result<Acquainted<V>, BootstrapError> {
        let Introduced { mesh, port, peers } = self;
        if cards.len() != peers.len() {
            return Err(BootstrapError::Cards { got: cards.len(), want: peers.len() });
        }
        let mut met = Vec::new();
        for (peer, (own, card)) in peers.into_iter().zip(cards).enumerate() {
            let Some((prepared, mine)) = own else { continue };
            let theirs = ConnectionInfo::decode(card).filter(|info| info.rank as usize == peer + 1);
            let theirs = theirs.ok_or_else(|| BootstrapError::Card(name(&mesh, peer)))?;
            ready_to_receive(&mesh, port, &prepared, &theirs)
                .map_err(|why| failed(&mesh, peer, why.into()))?;
            met.push(Meeting { prepared, mine, theirs });
        }
        Ok(Acquainted { mesh, peers: met })
    }
}

impl<V: Verbs> Acquainted<V> {
    /// All nodes are ready to receive: this one sends from now on.
    ///
    /// # Errors
    ///
    /// The device refuses it, or the mesh has a connection to a peer by now.
    pub fn connect(self) -> Result<(), BootstrapError> {
        let Acquainted { mesh, peers } = self;
        for Meeting { prepared, mine, theirs } in peers {
            let peer = prepared.peer().index();
            let adopted = ready_to_send(&mesh, &prepared, &mine, &theirs).map_err(AdoptError::from);
            let adopted = adopted.and_then(|()| prepared.adopt(&theirs.introduction));
            adopted.map_err(|why| failed(&mesh, peer, why))?;
        }
        Ok(())
    }
}

impl LocalPort {
    fn of<V: Verbs>(mesh: &Mesh<V>, gid_index: u8) -> Result<LocalPort, VerbsError> {
        let (context, config) = (mesh.shared.rt.context(), &mesh.shared.config);
        let PortAttr { lid, active_mtu, .. } = context.port_attr(config.port)?;
        let gid = context.gid(config.port, gid_index)?;
        let mtu = config.mtu.map_or(active_mtu, |mtu| mtu.min(active_mtu));
        Ok(LocalPort { gid_index, gid, lid, mtu })
    }
}

fn name<V: Verbs>(mesh: &Mesh<V>, peer: usize) -> String {
    mesh.shared.config.peers[peer].clone()
}

fn failed<V: Verbs>(mesh: &Mesh<V>, peer: usize, why: AdoptError) -> BootstrapError {
    BootstrapError::Peer { node: name(mesh, peer), why }
}

/// The connection info of a queue pair of this node.
fn info_of<V: Verbs>(mesh: &Mesh<V>, port: LocalPort, of: &Prepared<V>) -> ConnectionInfo {
    ConnectionInfo {
        rank: mesh.me().get(),
        qp: of.qp().num(),
        psn: Psn::new(mesh.shared.rt.random() as u32),
        gid: port.gid,
        lid: port.lid,
        mtu: port.mtu,
        rd_atomic: mesh.shared.config.rd_atomic,
        introduction: of.introduction(),
    }
}

fn connect_to_self<V: Verbs>(mesh: &Mesh<V>, port: LocalPort) -> Result<(), AdoptError> {
    let [near, far] = mesh.prepare_loopback()?;
    let (of_near, of_far) = (info_of(mesh, port, &near), info_of(mesh, port, &far));
    ready_to_receive(mesh, port, &near, &of_far)?;
    ready_to_receive(mesh, port, &far, &of_near)?;
    ready_to_send(mesh, &near, &of_near, &of_far)?;
    ready_to_send(mesh, &far, &of_far, &of_near)?;
    near.adopt(&of_far.introduction)?;
    far.adopt(&of_near.introduction)
}

/// The way to a peer.
fn path_to(config: &MeshConfig, sgid_index: u8, theirs: &ConnectionInfo) -> Path {
    let (dlid, traffic_class) = (theirs.lid, config.traffic_class);
    Path { dlid, sgid_index, traffic_class, ..Path::to(theirs.gid, config.port) }
}

fn ready_to_receive<V: Verbs>(
    mesh: &Mesh<V>,
    port: LocalPort,
    prepared: &Prepared<V>,
    theirs: &ConnectionInfo,
) -> Result<(), VerbsError> {
    let config = &mesh.shared.config;
    prepared.qp().modify(&Modify::Rtr(ToRtr {
        dest_qp: theirs.qp,
        rq_psn: theirs.psn,
        path: path_to(config, port.gid_index, theirs),
        mtu: theirs.mtu.min(port.mtu),
        min_rnr_timer: config.rnr_timer,
        max_dest_rd_atomic: config.rd_atomic,
        alt: None,
    }))
}

fn ready_to_send<V: Verbs>(
    mesh: &Mesh<V>,
    prepared: &Prepared<V>,
    mine: &ConnectionInfo,
    theirs: &ConnectionInfo,
) -> Result<(), VerbsError> {
    let config = &mesh.shared.config;
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

    fn decode(bytes: &[u8]) -> Option<ConnectionInfo> {
        let (fixed, introduction) = bytes.split_first_chunk::<FIXED_LEN>()?;
        let word = |at: usize| u32::from_le_bytes([fixed[at], fixed[at + 1], fixed[at + 2], fixed[at + 3]]);
        let mut gid = Gid([0; 16]);
        gid.0.copy_from_slice(&fixed[20..36]);
        let info = ConnectionInfo {
            rank: word(4),
            qp: QpNum(word(8)),
            psn: Psn::new(word(12)),
            mtu: Mtu::from_bytes(word(16))?,
            gid,
            lid: u16::from_le_bytes([fixed[36], fixed[37]]),
            rd_atomic: fixed[38],
            introduction: introduction.to_vec(),
        };
        (fixed[..4] == MAGIC && introduction.len() == usize::from(fixed[39])).then_some(info)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rt::fake::{Fake, V};
    use crate::rt::{Rt, RtConfig};

    fn card() -> ConnectionInfo {
        ConnectionInfo {
            rank: 3,
            qp: QpNum(0x1234),
            psn: Psn::new(0xab_cdef),
            gid: Gid([7; 16]),
            lid: 0x102,
            mtu: Mtu::B2048,
            rd_atomic: 16,
            introduction: vec![9; 44],
        }
    }

    #[test]
    fn packets_have_the_traffic_class_of_the_mesh_however_a_connection_is_made() {
        let names = vec!["n0".to_string(), "n1".to_string()];
        let config = MeshConfig { traffic_class: 106, ..MeshConfig::new(Rank::from_index(0), names) };
        assert_eq!(path_to(&config, 3, &card()).traffic_class, 106);
        let rt = Rt::<V>::new(&Fake::default(), RtConfig::default()).expect("the fake device obeys");
        let mesh = Mesh::start(&rt, config).expect("the fake device obeys");
        assert_eq!(mesh.shared.params(&[]).traffic_class, 106);
    }

    #[test]
    fn a_card_says_the_packet_size_of_the_mesh_unless_the_port_s_is_smaller() {
        let told = |mtu| {
            let names = vec!["n0".to_string(), "n1".to_string()];
            let config = MeshConfig { mtu, ..MeshConfig::new(Rank::from_index(0), names) };
            let rt = Rt::<V>::new(&Fake::default(), RtConfig::default()).expect("the fake device obeys");
            let mesh = Mesh::start(&rt, config).expect("the fake device obeys");
            let cards = mesh.introduce(0).expect("the fake device obeys").cards();
            ConnectionInfo::decode(&cards[1]).expect("a card").mtu
        };
        let port = Fake::default().port_attr(1).expect("the fake device has a port").active_mtu;
        assert_eq!(told(None), port);
        assert_eq!(told(Some(Mtu::B1024)), Mtu::B1024);
        assert!(Mtu::B4096 > port);
        assert_eq!(told(Some(Mtu::B4096)), port);
    }

    #[test]
    fn a_card_survives_the_way_and_others_are_refused() {
        let info = card();
        let bytes = info.encode();
        assert_eq!(ConnectionInfo::decode(&bytes), Some(info));
        for len in 0..bytes.len() {
            assert_eq!(ConnectionInfo::decode(&bytes[..len]), None, "cut after {len} bytes");
        }
        let with = |at: usize, byte: u8| {
            let mut other = bytes.clone();
            other[at] = byte;
            ConnectionInfo::decode(&other)
        };
        assert_eq!(with(16, 3), None, "no such size of packets");
        assert_eq!(with(0, b'G'), None, "a stranger");
    }
}
