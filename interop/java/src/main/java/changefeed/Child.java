package changefeed;

import java.io.File;
import java.io.IOException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;

/** How a scenario starts a process of its own: the same program, with other arguments. */
final class Child {

    /** How a process comes to trust the server's certificate; over plain HTTP it does not matter. */
    enum Trust {
        /** By the truststore that the suite itself runs with. */
        TRUSTSTORE,
        /** By the SDK's switch for the certificates of emulators. */
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
