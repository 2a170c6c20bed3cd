package tickets;

import java.util.concurrent.CountDownLatch;
import org.junit.jupiter.api.MethodOrderer;
import org.junit.jupiter.api.Order;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.TestMethodOrder;

@TestMethodOrder(MethodOrderer.OrderAnnotation.class)
class WaitsTest {
    @Test
    @Order(1)
    void first() {}

    @Test
    @Order(2)
    void forEver() throws InterruptedException {
        new CountDownLatch(1).await();
    }
}
