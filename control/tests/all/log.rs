//! What operators read: the lines of the log, by host.

use std::fmt;
use std::sync::{Arc, Mutex};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id};
use tracing::subscriber::DefaultGuard;
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};
use tracing_subscriber::registry::LookupSpan;

/// Lines with the host on which they were written.
type Lines = Arc<Mutex<Vec<(String, String)>>>;

/// Keeps what this thread logs, until it is dropped.
pub struct Log {
    lines: Lines,
    _guard: DefaultGuard,
}

impl Log {
    /// Begins to keep.
    pub fn begin() -> Log {
        let lines = Lines::default();
        let subscriber = tracing_subscriber::registry().with(Keep(lines.clone()));
        Log { lines, _guard: tracing::subscriber::set_default(subscriber) }
    }

    /// The lines of a host from level `info` on, as `LEVEL text`.
    pub fn of(&self, host: &str) -> Vec<String> {
        let lines = self.lines.lock().expect("nobody panics with it");
        lines.iter().filter(|(at, _)| at == host).map(|(_, line)| line.clone()).collect()
    }

    /// Those that come after a line.
    pub fn after(&self, host: &str, line: &str) -> Vec<String> {
        let all = self.of(host);
        let at = all.iter().position(|one| one == line);
        let at = at.unwrap_or_else(|| panic!("'{line}' is not among {all:#?}"));
        all[at + 1..].to_vec()
    }
}

struct Keep(Lines);

#[derive(Default)]
struct Fields {
    name: String,
    message: String,
}

impl Visit for Fields {
    fn record_str(&mut self, field: &Field, value: &str) {
        if field.name() == "name" {
            self.name = value.to_string();
        }
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        if field.name() == "message" {
            self.message = format!("{value:?}");
        }
    }
}

/// The host that turmoil runs.
struct Host(String);

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Keep {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let mut fields = Fields::default();
        attributes.record(&mut fields);
        if let Some(span) = context.span(id) {
            span.extensions_mut().insert(Host(fields.name));
        }
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        if !event.metadata().target().starts_with("weft_control") || *event.metadata().level() > Level::INFO {
            return;
        }
        let mut fields = Fields::default();
        event.record(&mut fields);
        let host =
            context.event_span(event).and_then(|span| Some(span.extensions().get::<Host>()?.0.clone()));
        let line = format!("{} {}", event.metadata().level(), fields.message);
        self.0.lock().expect("nobody panics with it").push((host.unwrap_or_default(), line));
    }
}
