// timers.go - Go's timers: arming, cancelling, firing.
package main

import (
	"sync/atomic"
	"time"
)

// random yields the same delays as contender_delay_ns(): from one minute to 61 minutes.
type random uint64

func (r *random) delay() time.Duration {
	x := uint64(*r)
	x ^= x << 13
	x ^= x >> 7
	x ^= x << 17
	*r = random(x)
	return time.Duration(60000000000 + x%3600000000000)
}

const seed random = 88172645463325252

func ignore() {}

// timersOne re-arms one timer, which is cheaper for Go than making a new one each time.
func timersOne(count int) (string, error) {
	r := seed
	timer := time.AfterFunc(time.Hour, ignore)
	timer.Stop()
	t0 := cpuTime()
	for i := 0; i < count; i++ {
		timer.Reset(r.delay())
		timer.Stop()
	}
	return spanPerOp("ns_per_arm_and_cancel", cpuTime()-t0, count), nil
}

func timersAmong(count int) (string, error) {
	r := seed
	extra := count / 10
	standing := make([]*time.Timer, count)
	timers := make([]*time.Timer, extra)
	for i := range standing {
		standing[i] = time.AfterFunc(r.delay(), ignore)
	}
	t0 := cpuTime()
	for i := range timers {
		timers[i] = time.AfterFunc(r.delay(), ignore)
	}
	t1 := cpuTime()
	for i, at := 0, 0; i < extra; i++ {
		timers[at].Stop()
		at += 7919
		if at >= extra {
			at -= extra
		}
	}
	t2 := cpuTime()
	for _, timer := range standing {
		timer.Stop()
	}
	return spanPerOp("ns_per_arm_and_cancel", t2-t0, extra) + " " +
		spanPerOp("ns_per_arm", t1-t0, extra) + " " +
		spanPerOp("ns_per_cancel", t2-t1, extra), nil
}

func timersFire(count int) (string, error) {
	var fired int64
	var last time.Time
	done := make(chan struct{})
	fire := func() {
		if atomic.AddInt64(&fired, 1) == int64(count) {
			last = time.Now()
			close(done)
		}
	}
	timers := make([]*time.Timer, count)
	when := time.Now().Add((200*time.Millisecond + time.Duration(count)*3000) * slack())
	for i := range timers {
		timers[i] = time.AfterFunc(time.Until(when), fire)
	}
	if time.Now().After(when) {
		return "", errLate
	}
	cpu := cpuTime()
	<-done
	return spanPerOp("cpu_ns_per_timer", cpuTime()-cpu, count) + " " +
		spanPerOp("late_ns_per_timer", last.Sub(when), count), nil
}
