//! Tokio's channels, and what its users do where weft has a kind that the crate has not.
//!
//! Many receivers: one receiver behind Tokio's mutex. Rendezvous: a channel of one, the smallest.
//! Where nothing has to wait the operation budget is lifted; elsewhere it stays, as it does in weft.
use crate::{cpu_ns, per_op, selects, Bench, Outcome};
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::Arc;
use std::time::Instant;
use tokio::sync::{broadcast, mpsc, oneshot, watch, Mutex};
use tokio::task::{unconstrained, yield_now, JoinHandle};

pub const BATCH: u64 = 1000;
const SIDE: u64 = 4;
const RECEIVERS: u64 = 4;
const BURST: u64 = 64;
const MAIL_BURST: u64 = 16;
const FLOW: usize = 64;

/// Counts bytes while it is told to.
struct Counting;

static COUNTS: AtomicBool = AtomicBool::new(false);
static BYTES: AtomicU64 = AtomicU64::new(0);

unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if COUNTS.load(Relaxed) {
            BYTES.fetch_add(layout.size() as u64, Relaxed);
        }
        System.alloc(layout)
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        System.dealloc(memory, layout)
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Measures one workload: CPU time on one CPU, the time that passes on two. Bytes are counted in a run
/// of their own, because counting costs time.
pub struct Clock {
    one_cpu: bool,
    counts: bool,
    wall: Instant,
    cpu: f64,
    pub pieces: f64,
    operations: u64,
}

impl Clock {
    pub fn new(one_cpu: bool, counts: bool) -> Clock {
        Clock { one_cpu, counts, wall: Instant::now(), cpu: 0.0, pieces: 0.0, operations: 0 }
    }

    pub fn begin(&mut self) {
        if self.counts {
            BYTES.store(0, Relaxed);
            COUNTS.store(true, Relaxed);
        }
        self.cpu = cpu_ns();
        self.wall = Instant::now();
    }

    pub fn end(&mut self, operations: u64) -> String {
        let wall = self.wall.elapsed().as_nanos() as f64;
        let cpu = cpu_ns() - self.cpu;
        COUNTS.store(false, Relaxed);
        self.operations = operations;
        if !self.one_cpu {
            return per_op("ns_per_op", wall, operations) + " " + &per_op("cpu_ns_per_op", cpu, operations);
        }
        per_op("ns_per_op", if self.pieces > 0.0 { self.pieces } else { cpu }, operations)
    }
}

impl Clock {
    pub fn one_cpu(&self) -> bool {
        self.one_cpu
    }

    pub fn operations(&self) -> u64 {
        self.operations
    }

    pub fn add(&mut self, piece: f64) {
        self.pieces += piece;
    }
}

/// What a counting clock has counted.
pub fn bytes_counted() -> f64 {
    BYTES.load(Relaxed) as f64
}

async fn play(name: &'static str, c: &mut Clock, count: u64) -> String {
    match name {
        "send" => unconstrained(batches(c, count, true)).await,
        "recv" => unconstrained(batches(c, count, false)).await,
        "round-trip" => round_trip(c, count).await,
        "stream" => stream(c, count, FLOW).await,
        "4x4" => flow(c, count).await,
        "rendezvous" => stream(c, count, 1).await,
        "unbounded-send" => unconstrained(unbounded_batches(c, count, true)).await,
        "unbounded-recv" => unconstrained(unbounded_batches(c, count, false)).await,
        "unbounded-4x1" => unbounded(c, count).await,
        "oneshot" => unconstrained(oneshots(c, count)).await,
        "call" => call(c, count).await,
        "broadcast-x4" => broadcasts(c, count).await,
        "watch-set" => watch_alone(c, count, true),
        "watch-get" => watch_alone(c, count, false),
        "select-2" => selects::round_trip_2(c, count).await,
        "select-8" => selects::round_trip_8(c, count).await,
        "select-ready-2" => unconstrained(selects::ready_2(c, count)).await,
        "select-ready-8" => unconstrained(selects::ready_8(c, count)).await,
        _ => watch_followed(c, count).await,
    }
}

const NAMES: [&str; 19] = [
    "send", "recv", "round-trip", "stream", "4x4", "rendezvous", "unbounded-send", "unbounded-recv",
    "unbounded-4x1", "oneshot", "call", "broadcast-x4", "watch-set", "watch-get", "watch-x4",
    "select-2", "select-8", "select-ready-2", "select-ready-8",
];

async fn measure(name: &'static str, count: u64, one_cpu: bool) -> Outcome {
    let mut warm = Clock::new(one_cpu, true);
    play(name, &mut warm, count / 20 + 100).await;
    let bytes = BYTES.load(Relaxed) as f64;
    let line = play(name, &mut Clock::new(one_cpu, false), count).await;
    Ok(line + " " + &per_op("bytes_per_op", bytes, warm.operations))
}

pub fn bench(name: &str, count: u64, one_cpu: bool) -> Option<Bench> {
    let name = name.strip_prefix("chan/")?;
    let known = NAMES.into_iter().find(|known| *known == name)?;
    Some(Box::pin(measure(known, count, one_cpu)))
}

async fn join(handles: Vec<JoinHandle<()>>) {
    for handle in handles {
        handle.await.unwrap();
    }
}

async fn batches(c: &mut Clock, count: u64, sends: bool) -> String {
    let (tx, mut rx) = mpsc::channel::<u64>(BATCH as usize);
    c.begin();
    let mut done = 0;
    while done < count {
        let t = cpu_ns();
        for i in 0..BATCH {
            tx.send(i).await.unwrap();
        }
        let middle = cpu_ns();
        for _ in 0..BATCH {
            rx.recv().await.unwrap();
        }
        c.pieces += if sends { middle - t } else { cpu_ns() - middle };
        done += BATCH;
    }
    c.end(done)
}

async fn unbounded_batches(c: &mut Clock, count: u64, sends: bool) -> String {
    let (tx, mut rx) = mpsc::unbounded_channel::<u64>();
    for i in 0..BATCH {
        tx.send(i).unwrap();
    }
    for _ in 0..BATCH {
        rx.recv().await.unwrap();
    }
    c.begin();
    let mut done = 0;
    while done < count {
        let t = cpu_ns();
        for i in 0..BATCH {
            tx.send(i).unwrap();
        }
        let middle = cpu_ns();
        for _ in 0..BATCH {
            rx.recv().await.unwrap();
        }
        c.pieces += if sends { middle - t } else { cpu_ns() - middle };
        done += BATCH;
    }
    c.end(done)
}

async fn round_trip(c: &mut Clock, count: u64) -> String {
    let (there, mut here) = mpsc::channel::<u64>(1);
    let (back, mut home) = mpsc::channel::<u64>(1);
    let echo = tokio::spawn(async move {
        while let Some(item) = here.recv().await {
            back.send(item).await.unwrap();
        }
    });
    c.begin();
    for i in 0..count {
        there.send(i).await.unwrap();
        home.recv().await.unwrap();
    }
    let line = c.end(count);
    drop(there);
    echo.await.unwrap();
    line
}

async fn stream(c: &mut Clock, count: u64, size: usize) -> String {
    let (tx, mut rx) = mpsc::channel::<u64>(size);
    c.begin();
    let receiver = tokio::spawn(async move { while rx.recv().await.is_some() {} });
    let sender = tokio::spawn(async move {
        for i in 0..count {
            tx.send(i).await.unwrap();
        }
    });
    join(vec![receiver, sender]).await;
    c.end(count)
}

async fn flow(c: &mut Clock, count: u64) -> String {
    let (tx, rx) = mpsc::channel::<u64>(FLOW);
    let rx = Arc::new(Mutex::new(rx));
    let per = count / SIDE;
    let mut handles = Vec::new();
    c.begin();
    for _ in 0..SIDE {
        let (tx, rx) = (tx.clone(), rx.clone());
        handles.push(tokio::spawn(async move {
            loop {
                if rx.lock().await.recv().await.is_none() {
                    return;
                }
            }
        }));
        handles.push(tokio::spawn(async move {
            for i in 0..per {
                tx.send(i).await.unwrap();
            }
        }));
    }
    drop(tx);
    join(handles).await;
    c.end(per * SIDE)
}

async fn unbounded(c: &mut Clock, count: u64) -> String {
    let (tx, mut rx) = mpsc::unbounded_channel::<u64>();
    let per = count / SIDE;
    c.begin();
    let mut handles = vec![tokio::spawn(async move { while rx.recv().await.is_some() {} })];
    for _ in 0..SIDE {
        let tx = tx.clone();
        handles.push(tokio::spawn(async move {
            for i in 0..per {
                tx.send(i).unwrap();
                if i % MAIL_BURST == MAIL_BURST - 1 {
                    yield_now().await;
                }
            }
        }));
    }
    drop(tx);
    join(handles).await;
    c.end(per * SIDE)
}

async fn oneshots(c: &mut Clock, count: u64) -> String {
    c.begin();
    for i in 0..count {
        let (tx, rx) = oneshot::channel::<u64>();
        tx.send(i).unwrap();
        assert_eq!(rx.await.unwrap(), i);
    }
    c.end(count)
}

async fn call(c: &mut Clock, count: u64) -> String {
    let (ask, mut questions) = mpsc::channel::<(u64, oneshot::Sender<u64>)>(1);
    let server = tokio::spawn(async move {
        while let Some((number, answer)) = questions.recv().await {
            answer.send(number).unwrap();
        }
    });
    c.begin();
    for i in 0..count {
        let (tx, rx) = oneshot::channel();
        ask.send((i, tx)).await.unwrap();
        rx.await.unwrap();
    }
    let line = c.end(count);
    drop(ask);
    server.await.unwrap();
    line
}

async fn collect(acks: &mut mpsc::Receiver<u64>) {
    for _ in 0..RECEIVERS {
        acks.recv().await.unwrap();
    }
}

async fn broadcasts(c: &mut Clock, count: u64) -> String {
    let (tx, _) = broadcast::channel::<u64>(BURST as usize);
    let (ack, mut acks) = mpsc::channel::<u64>(RECEIVERS as usize);
    let handles = (0..RECEIVERS)
        .map(|_| {
            let (mut rx, ack) = (tx.subscribe(), ack.clone());
            tokio::spawn(async move {
                let mut n = 0;
                while rx.recv().await.is_ok() {
                    n += 1;
                    if n % BURST == 0 {
                        ack.send(n).await.unwrap();
                    }
                }
            })
        })
        .collect();
    let bursts = count / RECEIVERS / BURST + 1;
    c.begin();
    for _ in 0..bursts {
        for i in 0..BURST {
            tx.send(i).unwrap();
        }
        collect(&mut acks).await;
    }
    let line = c.end(bursts * BURST * RECEIVERS);
    drop(tx);
    join(handles).await;
    line
}

fn watch_alone(c: &mut Clock, count: u64, sets: bool) -> String {
    let (tx, rx) = watch::channel(0u64);
    let mut sum = 0u64;
    c.begin();
    for i in 0..count {
        if sets {
            tx.send(i).unwrap();
        } else {
            sum = sum.wrapping_add(*std::hint::black_box(&rx).borrow());
        }
    }
    std::hint::black_box(sum);
    c.end(count)
}

async fn watch_followed(c: &mut Clock, count: u64) -> String {
    let (tx, rx) = watch::channel(0u64);
    let (ack, mut acks) = mpsc::channel::<u64>(RECEIVERS as usize);
    let handles = (0..RECEIVERS)
        .map(|_| {
            let (mut rx, ack) = (rx.clone(), ack.clone());
            tokio::spawn(async move {
                while rx.changed().await.is_ok() {
                    let value = *rx.borrow_and_update();
                    ack.send(value).await.unwrap();
                }
            })
        })
        .collect();
    c.begin();
    for i in 0..count {
        tx.send(i).unwrap();
        collect(&mut acks).await;
    }
    let line = c.end(count);
    drop(tx);
    join(handles).await;
    line
}
