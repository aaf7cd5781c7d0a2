//! How the figures are shown: tables, pictures, and what to know beside them.

use super::apps;
use crate::paper::{Axis, Bars, Group, Lines, Note, Plot, Row, Scale, Shape};
use std::collections::BTreeSet;

fn of<'a>(rows: &'a [Row], figure: &str) -> Vec<&'a Row> {
    rows.iter().filter(|row| row.figure == figure).collect()
}

fn in_unit<'a>(rows: &'a [Row], figure: &str, unit: &str) -> Vec<&'a Row> {
    of(rows, figure).into_iter().filter(|row| row.unit == unit).collect()
}

const MINIPAGE: &str = "bytes of a minipage";

/// All tables.
pub(super) fn groups(rows: &[Row]) -> Vec<Group> {
    let compared = |figure, title: &str| Group::compared(figure, title.to_string(), &of(rows, figure));
    let by_unit =
        |figure, title: &str, unit| Group::compared(figure, title.to_string(), &in_unit(rows, figure, unit));
    let faults = |title, unit| by_unit("Section 5.3", title, unit);
    let numbered = |figure, title: &str, head, unit| {
        let rows = in_unit(rows, figure, unit);
        let shown: BTreeSet<u64> = rows.iter().filter_map(|row| row.x.number()).collect();
        let shown: Vec<u64> = shown.into_iter().collect();
        Group::lines(figure, title.to_string(), head, &shown, &rows)
    };
    vec![
        compared("Table 2", "Table 2: a message there and back, by receive context, us"),
        faults("Section 5.3: a read fault of three hops, us", "us"),
        faults("Section 5.3: a read fault of three hops, one time by the other", "ratio"),
        faults("Section 5.3: by how much applications take longer, %", "%"),
        by_unit("Claims", "Section 5.4: what NBodyW's sequential phase reads and writes, ms", "ms"),
        by_unit("Claims", "Section 5.4: the same, one time by the other", "ratio"),
        compared("Table 3", "Table 3: applications, node 0 of 8, one thread a node"),
        compared("Figure 4", "Figure 4: where node 0's time goes, percent"),
        compared("Section 5.2", "Section 5.2: by how much applications take longer, %"),
        compared(apps::LOADED, "Section 5.2: the same with a process of others on each node, %"),
        compared("Task queue", "Section 5.2: the same by task queue, %"),
        numbered("Figure 3", "Figure 3: speed-up", "processors", "ratio"),
        compared("Section 5.4", "Section 5.4: speed-up"),
        numbered("Hops", "Machines of today: a read fault, us", "bytes", "us"),
        numbered("Copies", "Machines of today: a store, us", "other copies", "us"),
        numbered("Counters", "Machines of today: a counter for each of 16 nodes, us", MINIPAGE, "us"),
        numbered("Counters", "Machines of today: a counter for each of 16 nodes, faults", MINIPAGE, "count"),
        numbered("Uniform", "Machines of today: stores at random, a second", "nodes", "1/s"),
    ]
}

/// All pictures.
pub(super) fn plots(rows: &[Row]) -> Vec<Plot> {
    let bars = |file, figure, title: &str, y, unit: &str| {
        let shape = Shape::Bars(Bars::stacked(&in_unit(rows, figure, unit)));
        Plot { file, figure, title: title.to_string(), y, shape }
    };
    // The ways to serve one are alternatives: a bar for each, beside those of the same minipage.
    let alternative = |row: &&Row| {
        let series = format!("minipage of, {}", row.series.replace(", ", " "));
        Row { series, ..Row::clone(row) }
    };
    let faults: Vec<Row> = in_unit(rows, "Section 5.3", "us").iter().map(alternative).collect();
    let read_fault = Plot {
        file: "read-fault",
        figure: "Section 5.3",
        title: "A read fault of three hops".to_string(),
        y: "microseconds",
        shape: Shape::Bars(Bars::beside(&faults.iter().collect::<Vec<_>>())),
    };
    let lines = |file, figure, title: &str, y, x| Plot {
        file,
        figure,
        title: title.to_string(),
        y,
        shape: Shape::Lines(Lines::of(x, &of(rows, figure))),
    };
    let bytes = Axis { title: MINIPAGE, scale: Scale::Logarithmic };
    let copies = Axis { title: "other nodes that have a copy", scale: Scale::Linear };
    let processors = Axis { title: "processors", scale: Scale::Linear };
    vec![
        lines("hops", "Hops", "A read fault today", "microseconds", bytes),
        lines("copies", "Copies", "A store today", "microseconds", copies),
        bars(
            "counters",
            "Counters",
            "An addition to a node's own counter, by bytes of a minipage",
            "microseconds",
            "us",
        ),
        read_fault,
        lines("figure-3", "Figure 3", "Speed-up", "times", processors),
        bars("figure-4", "Figure 4", "Where node 0's time goes, 8 nodes", "percent", "%"),
    ]
}

pub(super) fn notes() -> [Note; 12] {
    [
        Note {
            figure: "Table 2",
            text: "Polling and interrupt are what Table 1 adds up to. Task queue and process are fitted, each by one constant: what \
                   the context takes on top of the interrupt that wakes it. They are not judged.",
        },
        Note {
            figure: "Section 5.3",
            text: "The paper gives no read fault in microseconds; it says that selective polling takes 3 to 7 % off page faults. Here \
                   the requestor alone polls, as in the paper's three hops. By RDMA reads it says 2 to 3 % more on average: the third reader's faults \
                   are those here, since the first one gets the minipage from the writer either way. Applications took \
                   up to 6 % less time by it, and more time where a node has more threads than processors. A fault is charged with Table 1's page fault, system \
                   call and changes of protection. Table 1 adds up to 98 us at 128 bytes and 135 at 4 KiB. \
                   Of what is above that, 21 us are the runtime's: on each of the three nodes it polls once more, for 7 us, before a \
                   task runs that a message woke. At 4 KiB the receiver's bus adds to it, a packet of 2 KiB after the other.",
        },
        Note {
            figure: "Claims",
            text: "One thread of 8 nodes reads and writes 8,192 bodies that all have written since, without what it computes. One by one each \
                   minipage of 16 bodies is a read and an upgrade, one after the other; a claim asks for all at once. The paper has no claims; the goal, a third of the \
                   time, is ours.",
        },
        Note {
            figure: "Table 3",
            text: "Each application has one fitted constant, what a unit of its work takes; it was fitted to the rate that is named \
                   with the constant, and that rate is not judged. The paper gives no grain: ours are Barnes 1 KiB, IS 256 \
                   bytes, LU 8 KiB (a block), NBody and NBodyW 1 KiB, Ocean 8 KiB (a row), SOR 8 KiB (a row of one colour), TSP \
                   4 KiB, Water 640 bytes (a molecule). Fewer rounds are run than in the paper, since rates do not depend on \
                   them. The paper's text counts eight applications, its Table 3 nine: Ocean stands in no figure.",
        },
        Note {
            figure: "Table 3",
            text: "Rows that contradict each other, or each other's source. Send: 81 KB/s by NBody's 1,089 faults are 74 bytes a fault, \
                   for four messages (request, order, notice, done); no message with an address has 18 bytes. Ours are counted \
                   with all headers, 96 bytes each. NBody's 1.8 MB/s by 1,089 faults are 1.65 KB each, but a grain of 2 KiB makes \
                   half as many faults; ours, 1 KiB, has the faults and half the bytes. Water: 857 locks and 882 faults a second \
                   are one fault a lock, where a molecule that another node wrote last takes two (a read, an upgrade), and reading \
                   the places takes more; its barriers and locks fit each other at seven barriers a round.",
        },
        Note {
            figure: "Section 5.2",
            text: "Eight nodes, two threads each. The user-level build is the same code on a profile whose completion events take a signal \
                   more (15 us, Table 2's process above its interrupt), whose system calls take 1 us more, and whose changes of \
                   protection take twice as long. A fault takes some 60 us more there. By Table 3's faults that is 5 % of NBodyW's time, 25 % \
                   of Barnes's, and 2 % of TSP's. What TSP saves beyond that lies in waits for its locks: who has the pool's lock faults \
                   while others wait for it. Ours saves half of what the paper's does; how long the paper's has its lock each \
                   time, and when its best tour is found, would have to be known.",
        },
        Note {
            figure: apps::LOADED,
            text: "A process of others computes all the time on each node, so that it and two threads share two processors, in turns of \
                   60 ms (Linux 2.4). The interrupt takes messages in at once. The user-level build is signalled, which is taken to go to \
                   the first thread, and waits where that is not its turn. A thread that has waited runs at once, in both builds.",
        },
        Note {
            figure: "Task queue",
            text: "A message waits in the task queue while both processors compute: until a thread makes a system call or has a page \
                   fault, or the next tick of the scheduler, every 10 ms. The paper says that the task queue saved roughly half of what \
                   the interrupt did, but in TSP, where time almost doubled. What else invoked the scheduler on the paper's nodes, \
                   interrupts and other processes among them, would have to be known: here nothing does.",
        },
        Note {
            figure: "Figure 3",
            text: "Against the units of a sequential run. To 8 processors a thread a node; 16 and 24 are 8 and 12 nodes of two threads. A branch and bound may find \
                   a short tour sooner on several nodes, and then have less to do than a sequential run. In theory all of NBodyW but its \
                   sequential phase has a perfect speed-up: the paper's dashed line, and its limit.",
        },
        Note {
            figure: "Hops",
            text: "Profile present-day; all nodes poll, and a fault is charged as one of mapped memory is. By three hops requestor, manager \
                   and the node that stored last are three; by two the latter is the manager. No paper has these; the goals are ours: 7.0 and 6.0 us at 4 KiB, \
                   6.5 us at 128 bytes by three.",
        },
        Note {
            figure: "Copies",
            text: "The node that stores has a copy, too, and one of the others is the manager. Goal: 16 us over 63.",
        },
        Note {
            figure: "Counters",
            text: "What false sharing costs: counters that are 64 bytes apart, in minipages of their own and all in one of 4 KiB. Each of 16 nodes \
                   makes 200 additions, 5 us apart.",
        },
    ]
}
