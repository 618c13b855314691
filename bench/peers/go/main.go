// main.go - Go's side of weft-bench, by the protocols described in bench/contender.h and serve.h.
package main

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unsafe"
)

type bench func(count int) (string, error)

var benches = map[string]bench{
	"yield-2":      func(n int) (string, error) { return yield(n, 2) },
	"yield-1000":   func(n int) (string, error) { return yield(n, 1000) },
	"yield-10000":  func(n int) (string, error) { return yield(n, 10000) },
	"spawn-one":    func(n int) (string, error) { return spawn(n, 1) },
	"spawn-1000":   func(n int) (string, error) { return spawn(n, 1000) },
	"million":      million,
	"timers-one":   timersOne,
	"timers-among": timersAmong,
	"timers-fire":  timersFire,
}

func main() {
	if len(os.Args) == 4 && os.Args[1] == "serve" {
		fmt.Println("skip:", serve(os.Args[2], os.Args[3]))
		return
	}
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: go BENCH COUNT | go serve MODE ADDRESS")
		os.Exit(2)
	}
	run, found := benches[os.Args[1]]
	if !found {
		run, found = chanBench(os.Args[1])
	}
	if !found {
		run, found = syncBench(os.Args[1])
	}
	if !found {
		run, found = schedBench(os.Args[1])
	}
	count, err := strconv.Atoi(os.Args[2])
	if !found || err != nil {
		fmt.Println("skip: no such benchmark")
		return
	}
	fmt.Println("ready")
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		line, err := run(count)
		if err == errLate {
			fmt.Println("late")
			return
		} else if err != nil {
			fmt.Println("skip:", err)
			return
		}
		fmt.Println(line)
	}
}

// errLate: the machine was too busy for an instant that the round had planned.
var errLate = errors.New("late")

// slack is how many times farther off planned instants are.
func slack() time.Duration {
	factor, err := strconv.Atoi(os.Getenv("WEFT_BENCH_SLACK"))
	if err != nil || factor < 1 {
		factor = 1
	}
	return time.Duration(factor)
}

// cpuTime is what all threads of the process have used.
func cpuTime() time.Duration {
	const clockProcess = 2
	var t syscall.Timespec
	syscall.Syscall(syscall.SYS_CLOCK_GETTIME, clockProcess, uintptr(unsafe.Pointer(&t)), 0)
	return time.Duration(t.Nano())
}

func perOp(metric string, amount float64, ops int) string {
	return fmt.Sprintf("%s=%.3f", metric, amount/float64(ops))
}

func spanPerOp(metric string, span time.Duration, ops int) string {
	return perOp(metric, float64(span.Nanoseconds()), ops)
}

// memory reads what the process occupies, in bytes.
func memory() (resident, pageTables float64) {
	text, _ := os.ReadFile("/proc/self/status")
	for _, line := range strings.Split(string(text), "\n") {
		var kilobytes float64
		if n, _ := fmt.Sscanf(line, "VmRSS: %f", &kilobytes); n == 1 {
			resident = kilobytes * 1024
		} else if n, _ := fmt.Sscanf(line, "VmPTE: %f", &kilobytes); n == 1 {
			pageTables = kilobytes * 1024
		}
	}
	return
}
