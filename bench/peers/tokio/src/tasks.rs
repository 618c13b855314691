//! Tasks: yielding, starting, sleeping.
use crate::{cpu_ns, per_op, slack, Outcome, LATE};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::sync::Notify;
use tokio::task::yield_now;

struct Turn {
    drawn: AtomicU64,
    warm: u64,
    end: u64,
    times: Mutex<(f64, f64)>,
}

impl Turn {
    // One thread runs all tasks: a load and a store, as plain memory in the other contenders.
    fn draw(&self) -> u64 {
        let mine = self.drawn.load(Relaxed);
        self.drawn.store(mine + 1, Relaxed);
        mine
    }
}

pub async fn yields(count: u64, tasks: u64) -> Outcome {
    let warm = tasks * 3 + 1000;
    let turn = Arc::new(Turn {
        drawn: AtomicU64::new(0),
        warm,
        end: warm + count,
        times: Mutex::new((0.0, 0.0)),
    });
    let handles: Vec<_> = (0..tasks)
        .map(|_| {
            let turn = turn.clone();
            tokio::spawn(async move {
                loop {
                    let mine = turn.draw();
                    if mine == turn.warm {
                        turn.times.lock().unwrap().0 = cpu_ns();
                    } else if mine >= turn.end {
                        if mine == turn.end {
                            turn.times.lock().unwrap().1 = cpu_ns();
                        }
                        return;
                    }
                    yield_now().await;
                }
            })
        })
        .collect();
    for handle in handles {
        handle.await.unwrap();
    }
    let times = turn.times.lock().unwrap();
    Ok(per_op("ns_per_yield", times.1 - times.0, count))
}

async fn batch(handles: &mut Vec<tokio::task::JoinHandle<()>>, size: u64) {
    for _ in 0..size {
        handles.push(tokio::spawn(async {}));
    }
    for handle in handles.drain(..) {
        handle.await.unwrap();
    }
}

pub async fn spawn(count: u64, size: u64) -> Outcome {
    let mut handles = Vec::with_capacity(size as usize);
    let batches = count / size;
    for _ in 0..batches / 20 + 2 {
        batch(&mut handles, size).await;
    }
    let t0 = cpu_ns();
    for _ in 0..batches {
        batch(&mut handles, size).await;
    }
    Ok(per_op("ns_per_task", cpu_ns() - t0, batches * size))
}

fn memory() -> (f64, f64) {
    let text = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let bytes = |key: &str| {
        text.lines()
            .find_map(|line| line.strip_prefix(key))
            .and_then(|rest| rest.trim().trim_end_matches(" kB").parse::<f64>().ok())
            .unwrap_or(0.0)
            * 1024.0
    };
    (bytes("VmRSS:"), bytes("VmPTE:"))
}

struct Herd {
    asleep: AtomicU64,
    awake: AtomicU64,
    last: Mutex<Option<Instant>>,
    done: Notify,
}

pub async fn million(count: u64) -> Outcome {
    let herd = Arc::new(Herd {
        asleep: AtomicU64::new(0),
        awake: AtomicU64::new(0),
        last: Mutex::new(None),
        done: Notify::new(),
    });
    let before = memory();
    let (t0, cpu0) = (Instant::now(), cpu_ns());
    let until = t0 + Duration::from_nanos((500_000_000 + count * 12_000) * slack());
    for i in 0..count {
        let herd = herd.clone();
        tokio::spawn(async move {
            herd.asleep.fetch_add(1, Relaxed);
            tokio::time::sleep_until(until.into()).await;
            if herd.awake.fetch_add(1, Relaxed) + 1 == count {
                *herd.last.lock().unwrap() = Some(Instant::now());
                herd.done.notify_one();
            }
        });
        if i % 1000 == 999 {
            yield_now().await;
        }
    }
    while herd.asleep.load(Relaxed) < count {
        yield_now().await;
    }
    let (t1, cpu1) = (Instant::now(), cpu_ns());
    if t1 > until {
        return Err(LATE);
    }
    let after = memory();
    herd.done.notified().await;
    let last = herd.last.lock().unwrap().unwrap();
    Ok([
        per_op("resident_bytes_per_task", after.0 - before.0, count),
        per_op("page_table_bytes_per_task", after.1 - before.1, count),
        per_op("spawn_cpu_ns_per_task", cpu1 - cpu0, count),
        per_op("wake_cpu_ns_per_task", cpu_ns() - cpu1, count),
        per_op("spawn_ms", (t1 - t0).as_nanos() as f64, 1_000_000),
        per_op("wake_ms", (last - until).as_nanos() as f64, 1_000_000),
    ]
    .join(" "))
}
