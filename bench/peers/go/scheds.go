// scheds.go - the scheduler: Tokio's four shapes, and a load that one goroutine creates.
package main

import (
	"fmt"
	"runtime"
	"strings"
	"sync/atomic"
	"time"
)

const (
	spawned    = 10000
	yielders   = 200
	yieldsEach = 1000
	pings      = 1000
	chainLinks = 1000
	skewed     = 2000
	skewRounds = 4000
)

// Each does so many operations.
var schedShapes = map[string]func() int{
	"spawn-many":    spawnMany,
	"yield-many":    yieldMany,
	"ping-pong":     pingPong,
	"chained-spawn": chainedSpawn,
	"skew":          skew,
}

func schedBench(name string) (bench, bool) {
	two := strings.HasSuffix(name, "/2")
	shape := strings.TrimSuffix(strings.TrimSuffix(strings.TrimPrefix(name, "sched/"), "/1"), "/2")
	once, found := schedShapes[shape]
	return func(count int) (string, error) {
		if two {
			runtime.GOMAXPROCS(2)
		} else {
			runtime.GOMAXPROCS(1)
		}
		once() // warm
		wall, cpu, done := time.Now(), cpuTime(), 0
		for done < count {
			done += once()
		}
		span, used := time.Since(wall), cpuTime()-cpu
		if !two {
			return spanPerOp("ns_per_op", used, done), nil
		}
		return fmt.Sprintf("%s %s", spanPerOp("ns_per_op", span, done),
			spanPerOp("cpu_ns_per_op", used, done)), nil
	}, found && strings.HasPrefix(name, "sched/")
}

// each starts `count` goroutines and waits until all have ended.
func each(count int, body func()) int {
	left := int64(count)
	over := make(chan struct{})
	for i := 0; i < count; i++ {
		go func() {
			body()
			if atomic.AddInt64(&left, -1) == 0 {
				close(over)
			}
		}()
	}
	<-over
	return count
}

func spawnMany() int {
	return each(spawned, func() {})
}

func yieldMany() int {
	return yieldsEach * each(yielders, func() {
		for i := 0; i < yieldsEach; i++ {
			runtime.Gosched()
		}
	})
}

func pingPong() int {
	return each(pings, func() {
		there, back := make(chan int, 1), make(chan int, 1)
		go func() { back <- <-there }()
		there <- 1
		<-back
	})
}

func link(left int, over chan struct{}) {
	if left == 1 {
		close(over)
		return
	}
	go link(left-1, over)
}

func chainedSpawn() int {
	over := make(chan struct{})
	go link(chainLinks, over)
	<-over
	return chainLinks
}

var skewSum int64

func skew() int {
	return each(skewed, func() {
		x := uint64(88172645463325252)
		for i := 0; i < skewRounds; i++ {
			x ^= x << 13
			x ^= x >> 7
			x ^= x << 17
		}
		if x == 0 { // never
			atomic.AddInt64(&skewSum, 1)
		}
	})
}
