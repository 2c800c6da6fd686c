//! Spans for a collector of OpenTelemetry: from the options to the tracers of the shards and the
//! thread that exports.
//!
//! Invariants: values of header fields are in no error and no log line.

#[cfg(feature = "otlp")]
mod messages;

#[cfg(feature = "otlp")]
mod exporter;

use std::any::Any;
use std::io;

use corelane_engine::mesh::ShardId;
use corelane_engine::process::Entropy;
use corelane_protocol::model::Implementation;

#[cfg(feature = "otlp")]
use self::exporter::Exporter;
use super::options::TraceOptions;
#[cfg(feature = "otlp")]
use super::options::{SecretFields, TraceSampler};
#[cfg(feature = "otlp")]
use super::secret_file;
#[cfg(feature = "otlp")]
use crate::guard::secure_rng::{Purpose, SecureRng};
#[cfg(feature = "otlp")]
use crate::telemetry::trace::Sampler;
use crate::telemetry::trace::{TraceTotals, Tracer};

/// Where the spans of a server go, if they are exported.
#[derive(Debug, Default)]
pub(super) struct TraceSource {
    #[cfg(feature = "otlp")]
    exporter: Option<(Exporter, Sampler)>,
}

#[cfg(not(feature = "otlp"))]
#[expect(clippy::unused_self, clippy::unnecessary_wraps, reason = "used in builds with `otlp`")]
impl TraceSource {
    pub fn load(options: &TraceOptions, _: &Implementation) -> Result<Self, String> {
        options.endpoint_url().map_err(|error| format!("traces.endpoint: {error}"))?;
        Ok(Self::default())
    }

    pub fn tracer(&self, _: &Entropy, _: ShardId) -> Tracer {
        Tracer::default()
    }

    pub fn totals(&self) -> Option<TraceTotals> {
        None
    }

    pub fn start(&self) -> io::Result<Option<Box<dyn Any + Send + Sync>>> {
        Ok(None)
    }
}

#[cfg(feature = "otlp")]
impl TraceSource {
    /// Reads the options and the files that they name.
    ///
    /// # Errors
    ///
    /// Which option or file cannot be used, and why.
    pub fn load(options: &TraceOptions, server: &Implementation) -> Result<Self, String> {
        let url = options.endpoint_url().map_err(|error| format!("traces.endpoint: {error}"))?;
        let Some(url) = url else { return Ok(Self::default()) };
        let exporter = Exporter::load(options, url, server)?;
        Ok(Self { exporter: Some((exporter, sampler(options))) })
    }

    /// Returns the tracer of a shard.
    pub fn tracer(&self, entropy: &Entropy, shard: ShardId) -> Tracer {
        let Some((exporter, sampler)) = &self.exporter else { return Tracer::default() };
        let mut random = SecureRng::of_shard(&entropy.secret, Purpose::SpanIds, shard.0);
        let seed = random.next_u128().map_or(0, low_half);
        Tracer::new(exporter.queue(), *sampler, seed)
    }

    /// Returns the numbers of spans, if they are exported.
    pub fn totals(&self) -> Option<TraceTotals> {
        self.exporter.as_ref().map(|(exporter, _)| exporter.queue().totals())
    }

    /// Starts the thread that exports. It exports what is left, and ends, when the returned value
    /// is dropped.
    pub fn start(&self) -> io::Result<Option<Box<dyn Any + Send + Sync>>> {
        let Some((exporter, _)) = &self.exporter else { return Ok(None) };
        Ok(Some(Box::new(exporter.start()?)))
    }
}

/// Reads the options and the files that they name, and exports nothing.
///
/// # Errors
///
/// Which option or file cannot be used, and why.
#[cfg(feature = "cli")]
pub fn check_traces(options: &TraceOptions) -> Result<(), String> {
    TraceSource::load(options, &Implementation::new("", "")).map(drop)
}

#[cfg(feature = "otlp")]
#[expect(clippy::cast_possible_truncation, reason = "the low half is meant")]
const fn low_half(number: u128) -> u64 {
    number as u64
}

#[cfg(feature = "otlp")]
const fn sampler(options: &TraceOptions) -> Sampler {
    const ALL: u32 = 1_000_000;
    let ratio = options.sampling_ratio.millionths();
    match options.sampler {
        TraceSampler::AlwaysOn => Sampler::new(false, ALL),
        TraceSampler::AlwaysOff => Sampler::new(false, 0),
        TraceSampler::TraceIdRatio => Sampler::new(false, ratio),
        TraceSampler::ParentBasedAlwaysOn => Sampler::new(true, ALL),
        TraceSampler::ParentBasedAlwaysOff => Sampler::new(true, 0),
        TraceSampler::ParentBasedTraceIdRatio => Sampler::new(true, ratio),
    }
}

/// Returns the header fields of the options and of the files that they name.
///
/// # Errors
///
/// Which file and line cannot be used, and why.
#[cfg(feature = "otlp")]
fn header_fields(options: &TraceOptions) -> Result<SecretFields, String> {
    let mut fields = options.header_fields.clone();
    for path in &options.headers {
        let name = path.display();
        let text = secret_file::read_text(path);
        let text = text.map_err(|error| format!("traces.headers: {name}: {error}"))?;
        let lines = (1..).zip(text.lines()).filter(|(_, line)| !line.trim().is_empty());
        for (number, line) in lines {
            let (field, value) = line.split_once(':').unwrap_or_default();
            let added = fields.add(field.trim(), value.trim());
            added.map_err(|what| format!("traces.headers: {name}:{number}: {what}"))?;
        }
    }
    Ok(fields)
}
