//! The layout as SVG.

use super::escaped;
use super::layout::{Band, Choice, End, Kind, Layout, MOST, Note, Packet};
use crate::explore::{BandState, Violation};
use std::fmt::Write;

const LINE: usize = 22;
const GUTTER: usize = 58;
const LANE: usize = 14;
/// Above the first line: title, legend, the columns' heads.
const HEAD: usize = 132;
/// About how wide a character is.
const CHARACTER: usize = 7;
/// How far from its column's line the text of a completion begins.
const TOLD: usize = 40;

const STYLE: &str = "\
text { font: 12px 'Helvetica Neue', Helvetica, Arial, sans-serif; fill: #2b3440; }
.halo { paint-order: stroke; stroke: #fff; stroke-width: 4px; stroke-linejoin: round; }
.title { font-size: 19px; font-weight: 600; } .sub { fill: #5d6875; } .head { font-size: 14px; font-weight: 600; }
.number { fill: #9aa4af; font-size: 11px; text-anchor: end; }
.left { text-anchor: end; } .middle { text-anchor: middle; }
.life { stroke: #b7c0ca; stroke-width: 2; } .rule { stroke: #eef1f4; }
.packet { stroke: #4a7fb5; stroke-width: 1.6; fill: none; } .sent { fill: #2d5f93; }
.lost { stroke: #c62f2f; stroke-dasharray: 5 3; } .late { stroke: #9aa4af; stroke-dasharray: 2 4; }
.cross { stroke: #c62f2f; stroke-width: 2.4; stroke-linecap: round; }
.told { stroke: #7a52b3; stroke-width: 1.6; } .toldtext { fill: #6a41a6; }
.fault { fill: #c62f2f; } .faulttext { fill: #b01e1e; font-weight: 600; }
.ground { fill: #fdf0f0; }
.effect { fill: #5d6875; } .dot { fill: #7d8893; }
.waiting { fill: url(#hatch); stroke: #d59a1f; } .shared { fill: #7cc6a0; stroke: #3f9a6c; }
.exclusive { fill: #3f78c4; stroke: #29599b; } .bandtext { font-size: 11px; }
.verdict { fill: #fdecec; stroke: #c62f2f; stroke-width: 1.5; } .broken { fill: #a51717; font-size: 15px; font-weight: 600; }
.cut { stroke: #c62f2f; stroke-width: 1.5; }";

const DEFS: &str = "\
<defs>
<pattern id=\"hatch\" width=\"6\" height=\"6\" patternUnits=\"userSpaceOnUse\" patternTransform=\"rotate(45)\">\
<rect width=\"6\" height=\"6\" fill=\"#fff4d9\"/><rect width=\"2.4\" height=\"6\" fill=\"#edb94f\"/></pattern>
<marker id=\"tip\" markerWidth=\"9\" markerHeight=\"8\" refX=\"8\" refY=\"4\" orient=\"auto\" markerUnits=\"userSpaceOnUse\">\
<path d=\"M0,0 L9,4 L0,8 Z\" fill=\"#4a7fb5\"/></marker>
<marker id=\"toldtip\" markerWidth=\"8\" markerHeight=\"8\" refX=\"7\" refY=\"4\" orient=\"auto\" markerUnits=\"userSpaceOnUse\">\
<path d=\"M0,0 L8,4 L0,8 Z\" fill=\"#7a52b3\"/></marker>
</defs>";

/// The drawing.
pub fn svg(world: &str, layout: &Layout, violation: Option<&Violation>) -> String {
    let mut draw = Draw::new(layout);
    draw.begin(world, violation);
    draw.rules();
    layout.bands.iter().for_each(|band| draw.band(band));
    layout.packets.iter().for_each(|packet| draw.packet(packet));
    // Words come last, so that no line runs through them.
    layout.bands.iter().for_each(|band| draw.band_text(band));
    layout.packets.iter().for_each(|packet| draw.packet_text(packet));
    layout.notes.iter().for_each(|note| draw.note(note));
    if let Some(violation) = violation {
        draw.verdict(violation);
    }
    draw.svg.push_str("</svg>\n");
    draw.svg
}

struct Draw<'a> {
    layout: &'a Layout,
    svg: String,
    /// From one column to the next.
    apart: usize,
    width: usize,
    bottom: usize,
}

impl Draw<'_> {
    fn new(layout: &Layout) -> Draw<'_> {
        let lanes = layout.lanes.len() * LANE;
        let margins = GUTTER + lanes + 40;
        // At least as wide as the legend; then the columns have that much more room.
        let legend = (860 - margins) / layout.columns.len().max(1);
        let apart = (layout.longest * CHARACTER + 50 + lanes).clamp(190, 460).max(legend.min(330));
        let width = (margins + apart * layout.columns.len()).max(860);
        let mut draw =
            Draw { layout, svg: String::new(), apart, width, bottom: HEAD + layout.lines * LINE + 10 };
        draw.width = width.max(draw.reach() + 20);
        draw
    }

    /// How far to the right texts go.
    fn reach(&self) -> usize {
        let end = |column: usize, text: &str| self.x(column) + TOLD + wide(text.chars().count().min(MOST));
        let notes = self.layout.notes.iter().map(|note| end(note.column, &note.text));
        let packets = self.layout.packets.iter().filter(|packet| packet.to >= packet.from.1);
        let packets = packets.map(|packet| end(packet.from.1, &self.sent(packet)));
        notes.chain(packets).max().unwrap_or_default()
    }

    /// What stands beside a packet's line.
    fn sent(&self, packet: &Packet) -> String {
        format!("{} → {}", packet.text, self.layout.columns[packet.to])
    }

    fn x(&self, column: usize) -> usize {
        GUTTER + 24 + self.layout.lanes.len() * LANE + 70 + column * self.apart
    }

    fn y(line: usize) -> usize {
        HEAD + line * LINE + LINE / 2
    }

    fn put(&mut self, text: std::fmt::Arguments<'_>) {
        let _ = self.svg.write_fmt(text);
        self.svg.push('\n');
    }

    fn text(&mut self, x: usize, y: usize, class: &str, text: &str) {
        self.text_within(MOST, (x, y), class, text);
    }

    /// A text of so many characters at most.
    fn text_within(&mut self, most: usize, (x, y): (usize, usize), class: &str, text: &str) {
        let shown = short(text, most);
        let full = if shown == text { String::new() } else { format!("<title>{}</title>", escaped(text)) };
        let shown = escaped(&shown);
        self.put(format_args!("<text x=\"{x}\" y=\"{y}\" class=\"{class}\">{full}{shown}</text>"));
    }

    fn line(&mut self, from: (usize, usize), to: (usize, usize), class: &str, more: &str) {
        let ((x1, y1), (x2, y2)) = (from, to);
        self.put(format_args!(
            "<line x1=\"{x1}\" y1=\"{y1}\" x2=\"{x2}\" y2=\"{y2}\" class=\"{class}\"{more}/>"
        ));
    }

    fn begin(&mut self, world: &str, violation: Option<&Violation>) {
        let height = self.bottom + if violation.is_some() { 84 } else { 20 };
        let width = self.width;
        self.put(format_args!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" \
             viewBox=\"0 0 {width} {height}\" role=\"img\">\n<title>{}</title>\n<style>\n{STYLE}\n</style>\n{DEFS}\n\
             <rect width=\"{width}\" height=\"{height}\" fill=\"#fff\"/>",
            escaped(world)
        ));
        self.text(20, 32, "title", world);
        let choices = self.layout.choices.last().map_or(0, |choice| choice.last);
        let subtitle = match violation {
            Some(violation) => format!("{choices} events, and then: {}", violation.oracle),
            None => format!("{choices} events, and every promise was kept"),
        };
        self.text(20, 52, "sub", &subtitle);
        self.legend();
        for (column, name) in self.layout.columns.iter().enumerate() {
            let x = self.x(column);
            self.text(x, HEAD - 14, "head middle", name);
            self.line((x, HEAD - 6), (x, self.bottom), "life", "");
        }
    }

    fn legend(&mut self) {
        let (mut x, y) = (20, 80);
        let bands = [("waiting", "waits"), ("shared", "has it, shared"), ("exclusive", "has it alone")];
        let bands = if self.layout.bands.is_empty() { &[][..] } else { &bands[..] };
        for (class, text) in bands {
            self.put(format_args!(
                "<rect x=\"{x}\" y=\"{}\" width=\"12\" height=\"12\" rx=\"2\" class=\"{class}\"/>",
                y - 10
            ));
            self.text(x + 18, y, "sub", text);
            x += 18 + text.len() * CHARACTER + 14;
        }
        let lines = [
            ("packet", " marker-end=\"url(#tip)\"", "packet"),
            ("packet lost", "", "lost"),
            ("packet late", "", "still under way"),
            ("told", " marker-end=\"url(#toldtip)\"", "completion"),
        ];
        for (class, more, text) in lines {
            self.line((x, y - 4), (x + 24, y - 4), class, more);
            self.text(x + 30, y, "sub", text);
            x += 30 + text.len() * CHARACTER + 14;
        }
        self.bolt(x + 6, y - 4);
        self.text(x + 16, y, "sub", "fault");
    }

    /// A faint rule above each choice, and its number; a fault has a ground of its own.
    fn rules(&mut self) {
        for choice in &self.layout.choices {
            let (y, height) = (HEAD + choice.from * LINE, (choice.to - choice.from) * LINE);
            if let Some(fault) = choice.fault {
                let width = self.width - 20 - (GUTTER - 8);
                let x = GUTTER - 8;
                self.put(format_args!(
                    "<rect x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{height}\" class=\"ground\"/>"
                ));
                self.bolt(self.width - 34, y + LINE / 2);
                self.text(self.width - 46, y + LINE / 2 + 4, "faulttext left", fault.name());
            }
            self.line((GUTTER - 8, y), (self.width - 20, y), "rule", "");
            let Choice { number, last, .. } = choice;
            let numbers = if number == last { number.to_string() } else { format!("{number}–{last}") };
            self.text(GUTTER - 16, y + LINE / 2 + 4, "number", &numbers);
        }
        // Over the rules, the nodes' lines again.
        for column in 0..self.layout.columns.len() {
            let x = self.x(column);
            self.line((x, HEAD), (x, self.bottom), "life", "");
        }
    }

    fn lane(&self, band: &Band) -> usize {
        self.x(band.column) - (band.lane + 1) * LANE - 4
    }

    fn band(&mut self, band: &Band) {
        let class = match band.state {
            BandState::Waiting(_) => "waiting",
            BandState::Shared(_) => "shared",
            BandState::Exclusive(_) => "exclusive",
            BandState::Nothing => return,
        };
        let (x, y) = (self.lane(band), Self::y(band.from) - 4);
        let end = if band.to >= self.layout.lines { self.bottom } else { Self::y(band.to) - 4 };
        let height = end.saturating_sub(y).max(6);
        self.put(format_args!(
            "<rect x=\"{x}\" y=\"{y}\" width=\"10\" height=\"{height}\" rx=\"3\" class=\"{class}\"/>"
        ));
    }

    fn band_text(&mut self, band: &Band) {
        let (BandState::Waiting(how) | BandState::Shared(how) | BandState::Exclusive(how)) = &band.state
        else {
            return;
        };
        let lanes = self.layout.lanes.len() * LANE;
        let text = if self.layout.lanes.len() > 1 {
            format!("{how} {}", self.layout.lanes[band.lane])
        } else {
            how.clone()
        };
        let x = self.x(band.column) - lanes - 8;
        self.text(x, Self::y(band.from) + 4, "bandtext left halo", &text);
    }

    /// Where a packet's line ends, and how it is drawn.
    fn packet(&mut self, packet: &Packet) {
        let from = (self.x(packet.from.1), Self::y(packet.from.0));
        let to = self.x(packet.to);
        // A line that stops short of the node's, by tenths of its way.
        let part = |tenths: usize| (from.0 * (10 - tenths) + to * tenths) / 10;
        match packet.end {
            End::Arrived(line) if packet.from.1 == packet.to => self.loop_back(from, Self::y(line)),
            End::Arrived(line) => {
                self.line(from, (to, Self::y(line)), "packet", " marker-end=\"url(#tip)\"");
            }
            End::Lost(line) => {
                let end = (part(6), Self::y(line));
                self.line(from, end, "packet lost", "");
                self.cross(end);
            }
            End::UnderWay => {
                let end = (part(7), (from.1 + 3 * LINE).min(self.bottom - 4).max(from.1 + 6));
                self.line(from, end, "packet late", "");
            }
        }
        self.put(format_args!("<circle cx=\"{}\" cy=\"{}\" r=\"3\" fill=\"#4a7fb5\"/>", from.0, from.1));
    }

    fn loop_back(&mut self, (x, y): (usize, usize), end: usize) {
        let out = x + 34;
        self.put(format_args!(
            "<path d=\"M{x},{y} C{out},{y} {out},{end} {x},{end}\" class=\"packet\" marker-end=\"url(#tip)\"/>"
        ));
    }

    fn packet_text(&mut self, packet: &Packet) {
        let (x, y) = (self.x(packet.from.1), Self::y(packet.from.0) - 3);
        let text = self.sent(packet);
        match packet.to < packet.from.1 {
            true => {
                let lanes = self.layout.lanes.len() * LANE;
                let end = x - lanes - 10;
                self.text_within(MOST.min(end * 2 / 13), (end, y), "sent left halo", &text);
            }
            false => self.text(x + 10, y, "sent halo", &text),
        }
    }

    fn cross(&mut self, (x, y): (usize, usize)) {
        self.line((x - 5, y - 5), (x + 5, y + 5), "cross", "");
        self.line((x - 5, y + 5), (x + 5, y - 5), "cross", "");
    }

    fn bolt(&mut self, x: usize, y: usize) {
        self.put(format_args!(
            "<path d=\"M{x},{y} m1,-9 l-7,10 h4.5 l-1.5,8 l7.5,-11 h-4.5 z\" class=\"fault\"/>"
        ));
    }

    fn note(&mut self, note: &Note) {
        let (x, y) = (self.x(note.column), Self::y(note.line));
        match note.kind {
            Kind::Step => {
                self.put(format_args!("<circle cx=\"{x}\" cy=\"{y}\" r=\"2.6\" class=\"dot\"/>"));
                self.text(x + 12, y + 4, "halo", &note.text);
            }
            Kind::Effect => self.text(x + 12, y + 4, "effect halo", &note.text),
            Kind::Completion => {
                self.line((x + 34, y), (x + 2, y), "told", " marker-end=\"url(#toldtip)\"");
                self.text(x + TOLD, y + 4, "toldtext halo", &note.text);
            }
            Kind::Fault => {
                self.bolt(x, y);
                self.text(x + 14, y + 4, "faulttext halo", &note.text);
            }
        }
    }

    fn verdict(&mut self, violation: &Violation) {
        let (y, width) = (self.bottom, self.width);
        self.line((GUTTER, y), (width - 20, y), "cut", "");
        self.put(format_args!(
            "<rect x=\"{GUTTER}\" y=\"{}\" width=\"{}\" height=\"56\" rx=\"6\" class=\"verdict\"/>",
            y + 12,
            width - GUTTER - 20
        ));
        self.text(GUTTER + 16, y + 35, "broken", &format!("Violated: {}", violation.oracle));
        let most = (width - GUTTER - 60) / 6;
        let text: String = violation.text.chars().take(most).collect();
        let text = if text.len() < violation.text.len() { text + "…" } else { text };
        let full = escaped(&violation.text);
        self.put(format_args!(
            "<text x=\"{}\" y=\"{}\"><title>{full}</title>{}</text>",
            GUTTER + 16,
            y + 55,
            escaped(&text)
        ));
    }
}

/// About how wide so many characters of a text are, on average.
fn wide(characters: usize) -> usize {
    characters * 13 / 2
}

/// A text of so many characters at most.
fn short(text: &str, most: usize) -> String {
    match text.chars().count() > most {
        true => text.chars().take(most - 1).chain(['…']).collect(),
        false => text.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use crate::explore::{Choices, Run, TraceEvent};
    use weft_sim::explore::FaultSet;

    /// Pages that show a drawing as a picture show no title of a text.
    #[test]
    fn what_a_node_does_is_shown_in_whole_and_within_the_picture() {
        let text =
            "swaps the header: was version 0 in slot 0, locked by n0, now version 1 in slot 1, locked by n0";
        let trace = vec![vec![TraceEvent::Note { node: 1, text: text.into() }]];
        let columns = ["n0", "n1"].map(str::to_string).to_vec();
        let kinds = FaultSet::NONE;
        let run = Run { choices: Choices(Vec::new()), violation: None, kinds, columns, trace };
        let svg = super::super::svg("one", &run);
        let line = svg.lines().find(|line| line.contains(text)).expect("it is there");
        assert!(!line.contains("<title>"), "{line}");
        let number = |line: &str, key: &str| -> usize {
            let from = line.split_once(key).expect("a number").1;
            from.split('"').next().and_then(|number| number.parse().ok()).expect("a number")
        };
        let (x, width) =
            (number(line, "<text x=\""), number(&svg, "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\""));
        assert!(x + 6 * text.len() < width, "{x} {width}");
    }
}
