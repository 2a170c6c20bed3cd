package tickets;

import org.junit.jupiter.api.Test;

class PricesTest {
    @Test
    void ofABox() {
        Prices.of("box");
    }
}
