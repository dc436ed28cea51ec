package changefeed;

import java.io.File;
import java.io.IOException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;

/** Starts this program again, as a child process with other arguments. */
final class Child {

    /** The way in which a process trusts the server's certificate. It has no effect over plain HTTP. */
    enum Trust {
        /** The truststore of the suite itself. */
        TRUSTSTORE,
        /** The SDK's switch that skips the check of an emulator's certificate. */
        EMULATOR_SWITCH
    }

    private Child() {
    }

    static Process start(Trust trust, List<String> arguments) throws IOException {
        List<String> command = new ArrayList<>(List.of(Path.of(System.getProperty("java.home"), "bin", "java").toString(),
            "-Xmx192m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData"));
        for (String name : List.of("COSMOS.DISABLE_IMDS_ACCESS", "COSMOS.HTTP_CONNECTION_WITHOUT_TLS_ALLOWED")) {
            if (System.getProperty(name) != null) {
                command.add("-D" + name + "=" + System.getProperty(name));
            }
        }
        if (trust == Trust.EMULATOR_SWITCH) {
            command.add("-DCOSMOS.EMULATOR_SERVER_CERTIFICATE_VALIDATION_DISABLED=true");
        } else if (System.getProperty("javax.net.ssl.trustStore") != null) {
            command.add("-Djavax.net.ssl.trustStore=" + System.getProperty("javax.net.ssl.trustStore"));
            command.add("-Djavax.net.ssl.trustStorePassword=" + System.getProperty("javax.net.ssl.trustStorePassword"));
        }
        command.addAll(List.of("-cp", System.getProperty("java.class.path").replace("target/", new File("target").getAbsolutePath() + "/"), "changefeed.Main"));
        command.addAll(arguments);
        return new ProcessBuilder(command).redirectError(ProcessBuilder.Redirect.INHERIT).start();
    }
}
