use super::*;

/// A receive of one byte on a shared queue, from queue pair 9.
fn received_by(qp: QpNum, wr_id: u64) -> RawWc {
    RawWc {
        wr_id,
        status: sys::ibv_wc_status::IBV_WC_SUCCESS,
        opcode: sys::ibv_wc_opcode::IBV_WC_RECV,
        vendor_err: 0,
        byte_len: 1,
        imm: 0,
        qp_num: qp.0,
        src_qp: 9,
        flags: 0,
        pkey_index: 0,
        slid: 0,
        sl: 0,
        path_bits: 0,
    }
}

#[test]
fn a_receive_on_a_shared_queue_names_its_sender_as_long_as_its_queue_pair_is_one_of_datagrams() {
    let mut ledgers = Ledgers::default();
    let shared = ledgers.open_shared(4).expect("there is room");
    let names_sender = |ledgers: &mut Ledgers, qp: QpNum| {
        let (_, name) = ledgers.post(shared, Side::Shared).expect("there is room");
        let mut told = Vec::new();
        ledgers.complete(&received_by(qp, name), &mut told);
        let done = told.pop().expect("it has completed").result.expect("it has not failed");
        done.from.map(|from| from.qp) == Some(QpNum(9))
    };
    let connection = ledgers.open(QpNum(1), false, (1, 0)).expect("there is room");
    let datagrams = ledgers.open(QpNum(2), true, (1, 0)).expect("there is room");
    assert!(!names_sender(&mut ledgers, QpNum(1)) && names_sender(&mut ledgers, QpNum(2)));
    // An adapter gives the number to the next queue pair.
    ledgers.close(datagrams, &mut Vec::new());
    ledgers.close(connection, &mut Vec::new());
    ledgers.open(QpNum(2), false, (1, 0)).expect("there is room");
    assert!(!names_sender(&mut ledgers, QpNum(2)));
}
