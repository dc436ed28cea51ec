package stand

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
)

// Java starts a process with hosts of Java's change feed processor: the program of interop/java, which `run prepare` has built there. directory
// is that of interop/java. Options of the JVM may follow.
func Java(ctx context.Context, name, directory, endpoint, key string, lines func(fields []string), jvm ...string) (*Process, error) {
	classes := filepath.Join(directory, "target", "classes")
	if _, err := os.Stat(classes); err != nil {
		return nil, fmt.Errorf("the Java hosts are not built: run %s prepare: %w", filepath.Join(directory, "run"), err)
	}
	args := append([]string{
		"-XX:-UsePerfData",
		// The client asks the cloud's metadata service where it runs; nothing is there to answer.
		"-DCOSMOS.DISABLE_IMDS_ACCESS=true",
		"-DCOSMOS.HTTP_CONNECTION_WITHOUT_TLS_ALLOWED=true",
	}, jvm...)
	args = append(args, "-cp", classes+":"+filepath.Join(directory, "target", "lib", "*"), "changefeed.Main", "live")
	return Launch(ctx, name, Account(endpoint, key), lines, "java", args...)
}

// SmallJava are options of a JVM that shares few processors with others: a small heap and the quick compiler.
func SmallJava() []string {
	return []string{"-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"}
}

// Account is the environment by which a process learns which account to use.
func Account(endpoint, key string) []string {
	return []string{"CHANGEFEED_ENDPOINT=" + endpoint, "CHANGEFEED_KEY=" + key, "CHANGEFEED_READONLY_KEY=" + key}
}
