//! Tokio's side of weft-bench, by the protocols described in bench/contender.h and bench/serve.h.
//!
//! `BENCH` runs on the current-thread scheduler, `BENCH/1-worker` on the multi-threaded one with
//! one worker, `BENCH/2-workers` on that with two. The benchmark's own code is always a spawned task, which is faster in both than
//! the future given to block_on.
mod chans;
mod net;
mod scheds;
mod selects;
mod syncs;
mod tasks;
mod timers;

use std::future::Future;
use std::io::{self, BufRead, Write};
use std::pin::Pin;
use tokio::runtime::{Builder, Runtime};

pub type Outcome = Result<String, &'static str>;
pub type Bench = Pin<Box<dyn Future<Output = Outcome> + Send>>;

/// What a round says when the machine was too busy for an instant that it had planned.
pub const LATE: &str = "late";

/// How many times farther off planned instants are.
pub fn slack() -> u64 {
    let text = std::env::var("WEFT_BENCH_SLACK").unwrap_or_default();
    text.parse().unwrap_or(1).max(1)
}

/// Nanoseconds of CPU time that all threads of the process have used.
pub fn cpu_ns() -> f64 {
    #[repr(C)]
    struct Timespec {
        seconds: i64,
        nanoseconds: i64,
    }
    extern "C" {
        fn clock_gettime(clock: i32, out: *mut Timespec) -> i32;
    }
    const CLOCK_PROCESS_CPUTIME_ID: i32 = 2;
    let mut t = Timespec { seconds: 0, nanoseconds: 0 };
    // The struct is that of 64-bit Linux, the only system these benchmarks are for.
    unsafe { clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &mut t) };
    t.seconds as f64 * 1e9 + t.nanoseconds as f64
}

pub fn per_op(metric: &str, span_ns: f64, ops: u64) -> String {
    format!("{}={:.3}", metric, span_ns / ops as f64)
}

fn bench(name: &str, count: u64) -> Option<Bench> {
    Some(match name {
        "yield-2" => Box::pin(tasks::yields(count, 2)),
        "yield-1000" => Box::pin(tasks::yields(count, 1000)),
        "yield-10000" => Box::pin(tasks::yields(count, 10000)),
        "spawn-one" => Box::pin(tasks::spawn(count, 1)),
        "spawn-1000" => Box::pin(tasks::spawn(count, 1000)),
        "million" => Box::pin(tasks::million(count)),
        "timers-one" => Box::pin(timers::one(count)),
        "timers-among" => Box::pin(timers::among(count)),
        "timers-fire" => Box::pin(timers::fire(count)),
        _ => return None,
    })
}

/// Without workers: the current-thread scheduler.
fn runtime(workers: usize) -> Runtime {
    let mut builder = if workers > 0 {
        Builder::new_multi_thread()
    } else {
        Builder::new_current_thread()
    };
    if workers > 0 {
        builder.worker_threads(workers);
    }
    builder.enable_all().build().expect("runtime")
}

fn main() -> io::Result<()> {
    let args: Vec<String> = std::env::args().collect();
    if args.len() == 4 && args[1].starts_with("serve") {
        let runtime = runtime(args[1].ends_with("/1-worker") as usize);
        let error = net::serve(runtime, &args[2], &args[3]);
        println!("skip: {}", error.unwrap_err());
        return Ok(());
    }
    if args.len() != 3 {
        eprintln!("usage: tokio BENCH COUNT | tokio serve MODE ADDRESS");
        std::process::exit(2);
    }
    let (name, workers) = if let Some(name) = args[1].strip_suffix("/1-worker") {
        (name, 1)
    } else if let Some(name) = args[1].strip_suffix("/2-workers") {
        (name, 2)
    } else {
        (args[1].as_str(), 0)
    };
    let count: u64 = args[2].parse().expect("count");
    let mut out = io::stdout();
    let make = |name: &str| {
        bench(name, count)
            .or_else(|| chans::bench(name, count, workers < 2))
            .or_else(|| syncs::bench(name, count, workers < 2))
            .or_else(|| scheds::bench(name, count, workers < 2))
    };
    if make(name).is_none() {
        return writeln!(out, "skip: no such benchmark");
    }
    let runtime = runtime(workers);
    writeln!(out, "ready")?;
    out.flush()?;
    for line in io::stdin().lock().lines() {
        line?;
        let task = runtime.spawn(make(name).expect("known"));
        match runtime.block_on(task).expect("bench") {
            Ok(result) => writeln!(out, "{}", result)?,
            Err(LATE) => {
                writeln!(out, "{}", LATE)?;
                break;
            }
            Err(reason) => {
                writeln!(out, "skip: {}", reason)?;
                break;
            }
        }
        out.flush()?;
    }
    Ok(())
}
