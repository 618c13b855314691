//! The scheduler: four shapes, and a load that one task creates.
use crate::{cpu_ns, per_op, Bench, Outcome};
use std::future::Future;
use std::sync::atomic::{AtomicU64, Ordering::AcqRel};
use std::sync::Arc;
use std::time::Instant;
use tokio::sync::oneshot;
use tokio::task::yield_now;

const SPAWNED: u64 = 10000;
const YIELDERS: u64 = 200;
const YIELDS: u64 = 1000;
const PINGS: u64 = 1000;
const CHAIN: u64 = 1000;
const SKEWED: u64 = 2000;
const SKEW_ROUNDS: u64 = 4000;

const NAMES: [&str; 5] = ["spawn-many", "yield-many", "ping-pong", "chained-spawn", "skew"];

/// Starts `count` tasks and waits until all have ended.
async fn each<F, B>(count: u64, body: F) -> u64
where
    F: Fn() -> B,
    B: Future<Output = ()> + Send + 'static,
{
    let left = Arc::new(AtomicU64::new(count));
    let (over, all) = oneshot::channel();
    let over = Arc::new(std::sync::Mutex::new(Some(over)));
    for _ in 0..count {
        let (left, over, work) = (left.clone(), over.clone(), body());
        tokio::spawn(async move {
            work.await;
            if left.fetch_sub(1, AcqRel) == 1 {
                over.lock().unwrap().take().unwrap().send(()).unwrap();
            }
        });
    }
    all.await.unwrap();
    count
}

async fn yields() {
    for _ in 0..YIELDS {
        yield_now().await;
    }
}

async fn ping() {
    let (there, at_theirs) = oneshot::channel();
    let (back, at_ours) = oneshot::channel();
    tokio::spawn(async move {
        let ball: i32 = at_theirs.await.unwrap();
        back.send(ball).unwrap();
    });
    there.send(1).unwrap();
    at_ours.await.unwrap();
}

fn link(left: u64, over: oneshot::Sender<()>) {
    tokio::spawn(async move {
        if left == 1 {
            over.send(()).unwrap();
        } else {
            link(left - 1, over);
        }
    });
}

async fn chain() -> u64 {
    let (over, all) = oneshot::channel();
    link(CHAIN, over);
    all.await.unwrap();
    CHAIN
}

async fn compute() {
    let mut x: u64 = 88172645463325252;
    for _ in 0..SKEW_ROUNDS {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
    }
    assert!(x != 0);
}

/// Does so many operations.
async fn once(name: &'static str) -> u64 {
    match name {
        "spawn-many" => each(SPAWNED, || async {}).await,
        "yield-many" => YIELDS * each(YIELDERS, yields).await,
        "ping-pong" => each(PINGS, ping).await,
        "chained-spawn" => chain().await,
        _ => each(SKEWED, compute).await,
    }
}

async fn measure(name: &'static str, count: u64, one_cpu: bool) -> Outcome {
    once(name).await; // warm
    let (wall, cpu, mut done) = (Instant::now(), cpu_ns(), 0);
    while done < count {
        done += once(name).await;
    }
    let (span, used) = (wall.elapsed().as_nanos() as f64, cpu_ns() - cpu);
    if one_cpu {
        return Ok(per_op("ns_per_op", used, done));
    }
    Ok(per_op("ns_per_op", span, done) + " " + &per_op("cpu_ns_per_op", used, done))
}

pub fn bench(name: &str, count: u64, one_cpu: bool) -> Option<Bench> {
    let name = name.strip_prefix("sched/")?;
    let known = NAMES.into_iter().find(|known| *known == name)?;
    Some(Box::pin(measure(known, count, one_cpu)))
}
