//! Tokio's timers: a Sleep is armed when it is first polled and cancelled when it is dropped.
use crate::{cpu_ns, per_op, slack, Outcome, LATE};
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};
use tokio::sync::Notify;
use tokio::time::{sleep_until, Sleep};

/// The same delays as contender_delay_ns(): from one minute to 61 minutes.
struct Random(u64);

impl Random {
    fn new() -> Random {
        Random(88172645463325252)
    }

    fn delay(&mut self) -> Duration {
        let mut x = self.0;
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        self.0 = x;
        Duration::from_nanos(60_000_000_000 + x % 3_600_000_000_000)
    }
}

/// Polls a sleep once, which arms it, with the waker of the task that awaits this.
struct Arm<'a>(Pin<&'a mut Sleep>);

impl Future for Arm<'_> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let _ = self.0.as_mut().poll(context);
        Poll::Ready(())
    }
}

// The operation budget would have a task yield every 128 polls; that is not what is measured.
async fn arm(sleep: Pin<&mut Sleep>) {
    tokio::task::unconstrained(Arm(sleep)).await
}

pub async fn one(count: u64) -> Outcome {
    let mut random = Random::new();
    let now = Instant::now();
    let t0 = cpu_ns();
    for _ in 0..count {
        let sleep = sleep_until((now + random.delay()).into());
        tokio::pin!(sleep);
        arm(sleep).await;
    }
    Ok(per_op("ns_per_arm_and_cancel", cpu_ns() - t0, count))
}

// Boxes are made before the clock starts: libuv and weft have their storage already, too.
fn boxes(count: u64, now: Instant, random: &mut Random) -> Vec<Option<Pin<Box<Sleep>>>> {
    (0..count).map(|_| Some(Box::pin(sleep_until((now + random.delay()).into())))).collect()
}

pub async fn among(count: u64) -> Outcome {
    let extra = count / 10;
    let mut random = Random::new();
    let now = Instant::now();
    let mut standing = boxes(count, now, &mut random);
    let mut timers = boxes(extra, now, &mut random);
    for sleep in standing.iter_mut() {
        arm(sleep.as_mut().unwrap().as_mut()).await;
    }
    let t0 = cpu_ns();
    for sleep in timers.iter_mut() {
        arm(sleep.as_mut().unwrap().as_mut()).await;
    }
    let t1 = cpu_ns();
    let mut at = 0;
    for _ in 0..extra as usize {
        timers[at] = None;
        at += 7919;
        if at >= extra as usize {
            at -= extra as usize;
        }
    }
    let t2 = cpu_ns();
    Ok([
        per_op("ns_per_arm_and_cancel", t2 - t0, extra),
        per_op("ns_per_arm", t1 - t0, extra),
        per_op("ns_per_cancel", t2 - t1, extra),
    ]
    .join(" "))
}

struct Burst {
    fired: AtomicU64,
    last: Mutex<Option<Instant>>,
    done: Notify,
}

/// Tokio has no timer that calls a function; a task that sleeps is what it offers instead.
pub async fn fire(count: u64) -> Outcome {
    let burst = Arc::new(Burst {
        fired: AtomicU64::new(0),
        last: Mutex::new(None),
        done: Notify::new(),
    });
    let when = Instant::now() + Duration::from_nanos((200_000_000 + count * 3_000) * slack());
    for i in 0..count {
        let burst = burst.clone();
        tokio::spawn(async move {
            sleep_until(when.into()).await;
            if burst.fired.fetch_add(1, Relaxed) + 1 == count {
                *burst.last.lock().unwrap() = Some(Instant::now());
                burst.done.notify_one();
            }
        });
        if i % 1000 == 999 {
            tokio::task::yield_now().await;
        }
    }
    tokio::task::yield_now().await;
    if Instant::now() > when {
        return Err(LATE);
    }
    let cpu = cpu_ns();
    burst.done.notified().await;
    let cpu = cpu_ns() - cpu;
    let last = burst.last.lock().unwrap().unwrap();
    Ok([
        per_op("cpu_ns_per_timer", cpu, count),
        per_op("late_ns_per_timer", (last - when).as_nanos() as f64, count),
    ]
    .join(" "))
}
