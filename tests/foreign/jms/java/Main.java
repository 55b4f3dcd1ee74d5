// The program of the tests. Each line of the input is PORT USER PASSWORD SCENARIO, each line of the output is one fact, and the last
// line of a scenario is "end". So one Java program serves all tests. "jakarta:SCENARIO" is the same scenario with IBM's classes for
// Jakarta Messaging: these have classes with the same names, so a loader of their own loads them.
import java.io.BufferedReader;
import java.io.File;
import java.io.IOException;
import java.io.InputStreamReader;
import java.lang.reflect.Method;
import java.net.URL;
import java.net.URLClassLoader;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;

public final class Main {
    private static final String JAKARTA = "jakarta:";

    public static void main(String[] jakartaPath) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        Method jakarta = null;
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] given = line.split(" ");
            if (given[3].startsWith("spring:") || given[3].startsWith("camel:")) {
                Frameworks.perform(in, given);
            } else if (given[3].startsWith(JAKARTA)) {
                jakarta = jakarta == null ? inJakarta(jakartaPath) : jakarta;
                given[3] = given[3].substring(JAKARTA.length());
                Thread.currentThread().setContextClassLoader(jakarta.getDeclaringClass().getClassLoader());
                jakarta.invoke(null, in, given);
                Thread.currentThread().setContextClassLoader(Main.class.getClassLoader());
            } else {
                Scenarios.perform(in, given);
            }
        }
    }

    private static Method inJakarta(String[] path) throws IOException, ReflectiveOperationException {
        List<URL> places = new ArrayList<>();
        for (String place : path) {
            places.add(new File(place).toURI().toURL());
        }
        ClassLoader loader = new URLClassLoader(places.toArray(new URL[0]), ClassLoader.getPlatformClassLoader());
        return loader.loadClass("Scenarios").getMethod("perform", BufferedReader.class, String[].class);
    }
}
