//! Numbers of `libibverbs` as the contract's types, and back.

use crate::ffi::Vector;
use rdma_sys as sys;
use weft_verbs::{
    AccessFlags, AsyncEvent, CqId, Gid, LinkLayer, Migration, Mtu, Path, PortState, QpNum, QpState, Result,
    SendFlags, SrqId, VerbsError, WcError,
};

/// Rights as `ibv_reg_mr` and `ibv_modify_qp` take them.
pub(crate) fn access(flags: AccessFlags) -> u32 {
    let map = [
        (AccessFlags::LOCAL_WRITE, sys::ibv_access_flags::IBV_ACCESS_LOCAL_WRITE.0),
        (AccessFlags::REMOTE_WRITE, sys::ibv_access_flags::IBV_ACCESS_REMOTE_WRITE.0),
        (AccessFlags::REMOTE_READ, sys::ibv_access_flags::IBV_ACCESS_REMOTE_READ.0),
        (AccessFlags::REMOTE_ATOMIC, sys::ibv_access_flags::IBV_ACCESS_REMOTE_ATOMIC.0),
    ];
    map.iter().filter(|(flag, _)| flags.contains(*flag)).fold(0, |sum, (_, bit)| sum | bit)
}

/// `ibv_send_flags`.
#[inline]
pub(crate) fn send_flags(flags: SendFlags, inline: bool) -> u32 {
    const FENCE: u32 = sys::ibv_send_flags::IBV_SEND_FENCE.0;
    const SIGNALED: u32 = sys::ibv_send_flags::IBV_SEND_SIGNALED.0;
    const SOLICITED: u32 = sys::ibv_send_flags::IBV_SEND_SOLICITED.0;
    const INLINE: u32 = sys::ibv_send_flags::IBV_SEND_INLINE.0;
    let bit = |set: bool, bit: u32| if set { bit } else { 0 };
    bit(flags.contains(SendFlags::SIGNALED), SIGNALED)
        | bit(flags.contains(SendFlags::SOLICITED), SOLICITED)
        | bit(flags.contains(SendFlags::FENCE), FENCE)
        | bit(inline, INLINE)
}

/// `ibv_mtu`.
pub(crate) fn mtu(mtu: Mtu) -> u32 {
    match mtu {
        Mtu::B256 => sys::ibv_mtu::IBV_MTU_256,
        Mtu::B512 => sys::ibv_mtu::IBV_MTU_512,
        Mtu::B1024 => sys::ibv_mtu::IBV_MTU_1024,
        Mtu::B2048 => sys::ibv_mtu::IBV_MTU_2048,
        Mtu::B4096 => sys::ibv_mtu::IBV_MTU_4096,
    }
}

/// The MTU of a number of `ibv_mtu`; of an unknown one the smallest.
pub(crate) fn mtu_of(raw: u32) -> Mtu {
    let all = [Mtu::B4096, Mtu::B2048, Mtu::B1024, Mtu::B512];
    all.into_iter().find(|m| mtu(*m) == raw).unwrap_or(Mtu::B256)
}

/// `ibv_qp_state`.
pub(crate) fn qp_state(state: QpState) -> u32 {
    match state {
        QpState::Reset => sys::ibv_qp_state::IBV_QPS_RESET,
        QpState::Init => sys::ibv_qp_state::IBV_QPS_INIT,
        QpState::Rtr => sys::ibv_qp_state::IBV_QPS_RTR,
        QpState::Rts => sys::ibv_qp_state::IBV_QPS_RTS,
        QpState::Sqd => sys::ibv_qp_state::IBV_QPS_SQD,
        QpState::Sqe => sys::ibv_qp_state::IBV_QPS_SQE,
        QpState::Err => sys::ibv_qp_state::IBV_QPS_ERR,
    }
}

/// The state of a number of `ibv_qp_state`; an unknown one is no state in which anything works.
pub(crate) fn qp_state_of(raw: u32) -> QpState {
    QpState::ALL.into_iter().find(|s| qp_state(*s) == raw).unwrap_or(QpState::Err)
}

/// `ibv_mig_state`.
pub(crate) fn migration(state: Migration) -> u32 {
    match state {
        Migration::Migrated => sys::ibv_mig_state::IBV_MIG_MIGRATED,
        Migration::Rearm => sys::ibv_mig_state::IBV_MIG_REARM,
        Migration::Armed => sys::ibv_mig_state::IBV_MIG_ARMED,
    }
}

/// The migration state of a number of `ibv_mig_state`.
pub(crate) fn migration_of(raw: u32) -> Migration {
    match raw {
        sys::ibv_mig_state::IBV_MIG_REARM => Migration::Rearm,
        sys::ibv_mig_state::IBV_MIG_ARMED => Migration::Armed,
        _ => Migration::Migrated,
    }
}

/// The state of a number of `ibv_port_state`.
pub(crate) fn port_state_of(raw: u32) -> PortState {
    match raw {
        sys::ibv_port_state::IBV_PORT_INIT => PortState::Init,
        sys::ibv_port_state::IBV_PORT_ARMED => PortState::Armed,
        sys::ibv_port_state::IBV_PORT_ACTIVE | sys::ibv_port_state::IBV_PORT_ACTIVE_DEFER => PortState::Active,
        _ => PortState::Down,
    }
}

/// Whether a device of that `ibv_transport_type` has connections of InfiniBand's kind, which RoCE has, too. Those of iWARP the connection
/// manager alone can move, and others (EFA) have none.
pub(crate) fn check_transport(transport: i32) -> Result<()> {
    match transport {
        sys::ibv_transport_type::IBV_TRANSPORT_IB => Ok(()),
        sys::ibv_transport_type::IBV_TRANSPORT_IWARP => {
            Err(VerbsError::Invalid("it speaks iWARP, not InfiniBand or RoCE"))
        }
        _ => Err(VerbsError::Invalid("it has no connections of InfiniBand or RoCE")),
    }
}

/// `IBV_LINK_LAYER_ETHERNET`; the constants of that anonymous enumeration are not in the bindings.
const LINK_LAYER_ETHERNET: u8 = 2;

/// The link layer of a number of `ibv_port_attr::link_layer`.
pub(crate) fn link_layer_of(raw: u8) -> LinkLayer {
    if raw == LINK_LAYER_ETHERNET { LinkLayer::Ethernet } else { LinkLayer::InfiniBand }
}

/// A port's data rate, from the codes of its width and speed (IBA 14.2.5.6; `ibv_query_port(3)`). Over InfiniBand that is after line
/// coding: 8b/10b up to QDR, 64b/66b from FDR on. Over Ethernet drivers take the codes whose numbers come out (`ib_get_eth_speed` of Linux,
/// `translate_eth_proto_oper` of mlx5): 40 Gb/s are four lanes of QDR, 20 Gb/s four of DDR, 1 Gb/s is one of SDR.
pub(crate) fn bits_per_second(width: u8, speed: u8, link: LinkLayer) -> u64 {
    let lanes = match width {
        1 => 1,
        2 => 4,
        4 => 8,
        8 => 12,
        16 => 2,
        _ => 0,
    };
    let lane = match (speed, link) {
        (1, LinkLayer::Ethernet) if lanes == 1 => 1_000_000_000,
        (1, LinkLayer::Ethernet) => 2_500_000_000,
        (2, LinkLayer::Ethernet) => 5_000_000_000,
        (4, LinkLayer::Ethernet) => 10_000_000_000,
        (16, LinkLayer::Ethernet) => 14_000_000_000,
        (1, _) => 2_000_000_000,
        (2, _) => 4_000_000_000,
        (4, _) => 8_000_000_000,
        (8, _) => 10_000_000_000,
        (16, _) => 13_636_000_000,
        (32, _) => 25_000_000_000,
        (64, _) => 50_000_000_000,
        (128, _) => 100_000_000_000,
        _ => 0,
    };
    lanes * lane
}

/// `IBV_QPF_GRH_REQUIRED`; the constants of that anonymous enumeration are not in the bindings.
const GRH_REQUIRED: u8 = 1;

/// Whether a port with these `ibv_port_attr::flags` requires the global header: ports of virtual functions, and of adapters that several
/// machines share, have one local identifier together (`ibv_query_port(3)`).
pub(crate) fn requires_header(flags: u8) -> bool {
    flags & GRH_REQUIRED != 0
}

/// An address vector, at a port of that link layer that requires the global header or does not.
pub(crate) fn vector(path: &Path, link: LinkLayer, required: bool) -> Vector {
    // A path that the connection manager found without a header has no GID for one.
    let required = required && path.dgid != Gid([0; 16]);
    Vector {
        dgid: path.dgid.0,
        dlid: path.dlid,
        sgid_index: path.sgid_index,
        port: path.port,
        sl: path.sl,
        traffic_class: path.traffic_class,
        hop_limit: path.hop_limit,
        // Within an InfiniBand subnet the local identifier is enough, and the header would be waste. Behind a router that identifier is
        // the router's, which needs the header.
        global: path.global || required || link == LinkLayer::Ethernet || path.dlid == 0,
        // A path over Ethernet has no such rate; older kernels name one all the same, of at most 40 Gbit/s.
        static_rate: if link == LinkLayer::InfiniBand { path.static_rate } else { 0 },
        source_path_bits: path.source_path_bits,
    }
}

/// The path of an address vector.
pub(crate) fn path(to: &Vector) -> Path {
    Path {
        dgid: Gid(to.dgid),
        dlid: to.dlid,
        sgid_index: to.sgid_index,
        port: to.port,
        sl: to.sl,
        traffic_class: to.traffic_class,
        hop_limit: to.hop_limit,
        global: to.global,
        static_rate: to.static_rate,
        source_path_bits: to.source_path_bits,
    }
}

/// The same path for packets of a traffic class; 0 leaves the one that the connection manager found.
pub(crate) fn of_class(path: Path, traffic_class: u8) -> Path {
    Path { traffic_class: if traffic_class == 0 { path.traffic_class } else { traffic_class }, ..path }
}

/// What a status other than success means.
#[cold]
pub(crate) fn wc_error(status: u32) -> WcError {
    use sys::ibv_wc_status::*;
    match status {
        IBV_WC_LOC_LEN_ERR => WcError::LocLen,
        IBV_WC_LOC_QP_OP_ERR => WcError::LocQpOp,
        // A local access error is a protection error that an incoming write with immediate data meets.
        IBV_WC_LOC_PROT_ERR | IBV_WC_LOC_ACCESS_ERR => WcError::LocProt,
        IBV_WC_WR_FLUSH_ERR => WcError::Flush,
        IBV_WC_MW_BIND_ERR => WcError::MwBind,
        IBV_WC_BAD_RESP_ERR => WcError::BadResp,
        IBV_WC_REM_INV_REQ_ERR => WcError::RemInvReq,
        IBV_WC_REM_ACCESS_ERR => WcError::RemAccess,
        IBV_WC_REM_OP_ERR => WcError::RemOp,
        IBV_WC_RETRY_EXC_ERR => WcError::RetryExc,
        IBV_WC_RNR_RETRY_EXC_ERR => WcError::RnrRetryExc,
        IBV_WC_FATAL_ERR => WcError::Fatal,
        _ => WcError::General,
    }
}

/// An asynchronous event, by its number and its object's identity.
pub(crate) fn async_event(event: u32, object: u32) -> AsyncEvent {
    use sys::ibv_event_type as E;
    const fn n(event: E) -> u32 {
        event as u32
    }
    let (qp, port) = (QpNum(object), object as u8);
    match event {
        e if e == n(E::IBV_EVENT_CQ_ERR) => AsyncEvent::CqError(CqId(object)),
        e if e == n(E::IBV_EVENT_QP_FATAL) => AsyncEvent::QpFatal(qp),
        e if e == n(E::IBV_EVENT_QP_REQ_ERR) => AsyncEvent::QpRequestError(qp),
        e if e == n(E::IBV_EVENT_QP_ACCESS_ERR) => AsyncEvent::QpAccessError(qp),
        e if e == n(E::IBV_EVENT_COMM_EST) => AsyncEvent::CommEstablished(qp),
        e if e == n(E::IBV_EVENT_SQ_DRAINED) => AsyncEvent::SqDrained(qp),
        e if e == n(E::IBV_EVENT_PATH_MIG) => AsyncEvent::PathMigrated(qp),
        e if e == n(E::IBV_EVENT_PATH_MIG_ERR) => AsyncEvent::PathMigrationFailed(qp),
        e if e == n(E::IBV_EVENT_QP_LAST_WQE_REACHED) => AsyncEvent::LastWqe(qp),
        e if e == n(E::IBV_EVENT_SRQ_ERR) => AsyncEvent::SrqError(SrqId(object)),
        e if e == n(E::IBV_EVENT_SRQ_LIMIT_REACHED) => AsyncEvent::SrqLimit(SrqId(object)),
        e if e == n(E::IBV_EVENT_PORT_ACTIVE) => AsyncEvent::PortActive(port),
        e if e == n(E::IBV_EVENT_PORT_ERR) => AsyncEvent::PortError(port),
        e if e == n(E::IBV_EVENT_LID_CHANGE) => AsyncEvent::LidChange(port),
        e if e == n(E::IBV_EVENT_GID_CHANGE) => AsyncEvent::GidChange(port),
        e if e == n(E::IBV_EVENT_DEVICE_FATAL) => AsyncEvent::DeviceFatal,
        other => AsyncEvent::Unknown(other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_has_the_traffic_class_that_was_asked_for_or_else_the_one_that_was_found() {
        let found = Path { traffic_class: 8, sl: 3, ..Path::to(Gid([7; 16]), 1) };
        assert_eq!(of_class(found, 0), found);
        assert_eq!(of_class(found, 106), Path { traffic_class: 106, ..found });
    }

    #[test]
    fn a_path_that_the_connection_manager_found_is_the_one_that_packets_take() {
        let found = Vector {
            dgid: [7; 16],
            dlid: 5,
            sgid_index: 2,
            port: 1,
            sl: 3,
            traffic_class: 9,
            hop_limit: 60,
            global: true,
            static_rate: 6,
            source_path_bits: 1,
        };
        assert_eq!(vector(&path(&found), LinkLayer::InfiniBand, false), found);
        let at_its_rate = Vector { static_rate: 0, ..found };
        assert_eq!(vector(&path(&found), LinkLayer::Ethernet, false), at_its_rate, "no path has a rate there");
    }

    #[test]
    fn a_device_without_connections_of_infinibands_kind_is_refused() {
        use sys::ibv_transport_type::*;
        assert_eq!(check_transport(IBV_TRANSPORT_IB), Ok(()));
        let why = |transport| check_transport(transport).map_err(|why| why.to_string());
        assert_eq!(why(IBV_TRANSPORT_IWARP), Err("it speaks iWARP, not InfiniBand or RoCE".to_string()));
        for other in [IBV_TRANSPORT_UNKNOWN, IBV_TRANSPORT_USNIC, IBV_TRANSPORT_USNIC_UDP, IBV_TRANSPORT_UNSPECIFIED] {
            assert!(check_transport(other).is_err(), "{other}");
        }
    }

    #[test]
    fn a_port_has_the_data_rate_that_its_link_layer_means_by_width_and_speed() {
        const LANES: [(u8, u8); 4] = [(1, 1), (4, 2), (8, 4), (12, 8)];
        let rate = |lanes, speed, link| {
            let (_, width) = LANES.into_iter().find(|(number, _)| *number == lanes).expect("a width");
            bits_per_second(width, speed, link) / 1_000_000_000
        };
        // As drivers tell Ethernet of these many Gb/s: SDR is 1, DDR 2, QDR 4, FDR10 8, FDR 16, EDR 32, HDR 64.
        for (gigabits, lanes, speed) in
            [(1, 1, 1), (10, 1, 4), (10, 1, 8), (20, 4, 2), (25, 1, 32), (40, 4, 4), (40, 4, 8), (56, 4, 16), (100, 4, 32), (200, 4, 64)]
        {
            assert_eq!(rate(lanes, speed, LinkLayer::Ethernet), gigabits, "{lanes} lanes of {speed}");
        }
        for (gigabits, lanes, speed) in [(8, 4, 1), (16, 4, 2), (32, 4, 4), (54, 4, 16), (100, 4, 32), (400, 4, 128)] {
            assert_eq!(rate(lanes, speed, LinkLayer::InfiniBand), gigabits, "{lanes} lanes of {speed}");
        }
    }

    #[test]
    fn packets_have_a_global_header_where_the_way_leads_through_a_router_or_has_no_other_address() {
        let to = |dlid, global| Vector {
            dgid: [7; 16],
            dlid,
            sgid_index: 0,
            port: 1,
            sl: 3,
            traffic_class: 9,
            hop_limit: 64,
            global,
            static_rate: 0,
            source_path_bits: 0,
        };
        let kept = |to: &Vector, link| vector(&path(to), link, false).global;
        for global in [false, true] {
            assert_eq!(kept(&to(5, global), LinkLayer::InfiniBand), global);
            assert!(kept(&to(5, global), LinkLayer::Ethernet));
            assert!(kept(&to(0, global), LinkLayer::InfiniBand));
        }
    }

    #[test]
    fn packets_have_a_global_header_where_the_port_requires_it_and_there_is_a_gid_for_it() {
        let global = |dgid, flags| {
            let path = Path { dlid: 5, ..Path::to(Gid(dgid), 1) };
            vector(&path, LinkLayer::InfiniBand, requires_header(flags)).global
        };
        assert!(global([7; 16], 1) && global([7; 16], 3));
        assert!(!global([7; 16], 0) && !global([7; 16], 2));
        assert!(!global([0; 16], 1), "the connection manager's own path");
    }
}
