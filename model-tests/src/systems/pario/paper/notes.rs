//! What to know beside the figures.

use crate::paper::Note;

/// All of them, in the paper's order.
pub(super) fn notes() -> [Note; 6] {
    [
        Note {
            figure: "Table 2",
            text: "Goes into the profile, and is measured again: an RDMA write until a processor that polls its target sees it, a \
                   read until its data are there, half of a message's way there and back, the contract's byte streams for \
                   TCP. The bandwidth of queued messages (QDMA) comes out, and does not: a verbs send of 2 KiB moves as fast as an \
                   RDMA write, and no figure of the profile slows it.",
        },
        Note {
            figure: "Figure 8",
            text: "The paper's figures 8 and 9 have no values in its text. It says that reads gain more than 140 % by Elan4, \
                   and not with how many servers and clients; here four of each. Nothing is fitted to it: a server's processor \
                   copies once out of the page cache, and by TCP is busy with the stream, too. PVFS2's work for a request and a \
                   fragment is not in the profile, so that both wires are faster than the paper's axes.",
        },
        Note {
            figure: "Figure 9",
            text: "Writes into memory (7.2: ramfs) gain up to 82 %. Here they go into the page cache and are not synced; what \
                   that costs the processor is fitted to this gain.",
        },
        Note {
            figure: "Figure 10",
            text: "Its values are lost, too. Lists have 64 regions a request, as PVFS2's. By verbs no processor copies but to and \
                   from the page cache; by TCP both ends pack as well. A sync serves all requests whose writes had ended before \
                   it began, where PVFS2's server syncs for each.",
        },
        Note {
            figure: "Table 4",
            text: "Four of BT's forty dumps are measured, and taken ten times. The time is that of the calls; the paper's is what \
                   the benchmark takes beyond one without I/O. PVFS2's work for each region is not in the profile, and BT has \
                   327,680 of them.",
        },
        Note {
            figure: "Table 3",
            text: "By PVFS2's own steps: a creation is a question for the directory, and then four changes that are made durable one after \
                   the other (metadata, the data's places at both servers, their handles, the name); a resize asks both servers \
                   once. Three constants are fitted, each to one cell of one client. Which collective call ends the benchmark's \
                   operation the paper does not say: here all meet in a barrier, whose rounds come nearer than a broadcast's tree (at most \
                   12 % off over Elan4, against 19 %). Its messages go by TCP in both columns, since a second client adds 46 us over Elan4. \
                   With TCP the paper's 3 clients take longer than its 4, which no number of messages does. The service here \
                   does not take these steps: it makes a file by one request and one commit.",
        },
    ]
}
