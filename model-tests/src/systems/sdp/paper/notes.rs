//! What to know beside the figures.

use crate::paper::Note;

/// All of them, in the order of the tables.
pub(super) fn notes() -> Vec<Note> {
    let note = |figure, text| Note { figure, text };
    vec![
        note(
            "No ZCopy",
            "Fitted to 1 KiB (throughput) and 10 MiB (throughput and sender's CPU); the other lines come out. The receiver \
             spins, as the thesis's does: its lines say one core of 16 wherever messages are short, and ours say so by \
             construction, wherever it is BCopy; they are not judged. Its sender works on two cores (12.5 % at 1 and 8 KiB); here what a sender does counts twice. Of messages beyond 16 MiB the first \
             16 MiB are sent: what a call costs is nothing there.",
        ),
        note(
            "Threshold 64 KiB",
            "One buffer is under way at a time, each call registers its own, and the receiver reads by calls of 87,380 byte \
             and sleeps meanwhile. What a page takes was fitted between the sender's lines at 1 MiB and 10 MiB. 128 KiB contradicts \
             1 MiB: the same reads by the same calls keep the receiver's core busy there, and a fifth of it here. \
             10 MiB has three lines by ZCopy, whose receivers took 1.16, 1.75 and 1.37 %: no model is within 15 % of all. \
             The thesis's summary has 10.1 Gb/s for 100 MiB; netperf's line says 6.68. Messages of 1,000 MiB and \
             more went by BCopy.",
        ),
        note(
            "Threshold 1 MiB",
            "8 KiB goes by BCopy at every threshold: 7,908 Mb/s here contradict 9,177 and 9,105 above.",
        ),
        note(
            "Pipelined",
            "Not the thesis's: four buffers under way at the sender and two calls of the message's size at the receiver. \
             The interface here registers a buffer once (kept); beside it stands what it is if each call registers its own, \
             as the thesis's does (new). The paper's column is BCopy here for bandwidth, and for the sender the thesis's cost of \
             one buffer at a time, of which it has no line at 4 MiB.",
        ),
        note(
            "Ready, unused",
            "Two rails against one. The paper's column is its Table 1 (SDP bonding), which its chapter 7 contradicts: \
             bonded, 9,104 Mb/s at 8 KiB.",
        ),
        note(
            "IPoIB",
            "ipoib is a cost model, calibrated to the thesis's four points and to nothing else; below the first of them, 8 KiB, it \
             is carried on, and not drawn. Its second figure \
             is called a latency there; it is netperf's processor time for a KB.",
        ),
        note(
            "A cut",
            "The bytes of a read are spread over the time since the one before. What a read has moved that is under way at the cut \
             is moved again by messages, so that a reader without a copy gets nothing from its last read before the cut on.",
        ),
        note(
            "Stalls",
            "The longest time in which a reader got nothing, in microseconds, over 48 places of a cut in a transfer of 6 MiB, \
             from the reader's first bytes on. \
             The thesis has none: its transparent failover was not finished. The bound is what this project \
             wants: until an end knows (at once by a port event, else (retries + 1) x 4 x the acknowledgement time-out), \
             then three round trips, the revocation and what is sent again. A connection stands by over the \
             other rail. ZCopy goes on by messages after a cut, since its memory is the first rail's, and they take longer.",
        ),
    ]
}
